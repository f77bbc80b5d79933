"""A chain that nobody looks after is said to be so."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.attended import another_configuration, attended, daemon_line, warn_unattended
from chainwatch.store import open_store
from chainwatch.store.records import CONFIGURATION, LAST_PASS
from chainwatch.supervisor.daemon import holder
from tests.cli.tools import tools

TTL = timedelta(minutes=5)


def test_a_daemon_or_a_timer_looks_after_the_state_and_otherwise_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, now = open_store(tmp_path / "state"), common.now()
    try:
        assert not attended(store, now)
        warn_unattended(store, tmp_path / "state", "run")
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"no daemon runs for {tmp_path / 'state'}" in said
        lease = store.acquire_lease(holder(), TTL, now)
        assert attended(store, now)
        warn_unattended(store, tmp_path / "state", "run")
        assert capsys.readouterr().err == ""
        assert not attended(store, now + 2 * TTL), "it did not renew its lease"
        store.release_lease(lease)
        assert not attended(store, now)
        store.remember(LAST_PASS, now.isoformat())
        assert attended(store, now + timedelta(minutes=6))
        assert not attended(store, now + timedelta(hours=1))
    finally:
        store.close()


def test_a_daemon_that_was_killed_is_gone_though_its_lease_still_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind: a lease read as if it were a process. Each command that tells of a daemon asks the same judgement."""
    state = tmp_path / "state"
    store, now = open_store(state), common.now()

    def told(command: str, *words: str) -> str:
        ask = [sys.executable, "-m", "chainwatch.cli", command, "--state", str(state), *words]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr
        return done.stderr

    try:
        assert daemon_line(store, now).startswith("no daemon is at work")
        with subprocess.Popen(["sleep", "600"]) as process:
            daemon = f"{socket.gethostname()}:{process.pid}"
            store.acquire_lease(daemon, TTL, now)
            alive = daemon_line(store, now)
            process.kill()
        assert alive == f"the daemon is {daemon}"
        assert daemon_line(store, now).startswith(f"the daemon {daemon} is gone: ")
        assert not attended(store, now)
        warn_unattended(store, state, "run")
        assert "no daemon runs for" in capsys.readouterr().err
        assert f"the daemon {daemon} is gone" in told("reload")
        assert f"the daemon is {daemon}" not in told("web")
        assert daemon_line(store, now + 2 * TTL).startswith("no daemon is at work")
    finally:
        store.close()


def test_a_reload_by_another_configuration_than_the_daemon_reads_is_refused_and_the_daemon_not_asked(
    tmp_path: Path,
) -> None:
    state, theirs, mine, link = (tmp_path / name for name in ("state", "theirs.yaml", "mine.yaml", "link.yaml"))
    for config in (theirs, mine):
        config.write_text("chains: {}\n")
    link.symlink_to(theirs)
    store, now = open_store(state), common.now()
    try:
        store.remember(CONFIGURATION, str(theirs))
        assert another_configuration(store, mine) == str(theirs)
        assert another_configuration(store, theirs) is another_configuration(store, link) is None
        with subprocess.Popen(["sleep", "600"]) as process:
            store.acquire_lease(f"{socket.gethostname()}:{process.pid}", TTL, now)
            ask = [sys.executable, "-m", "chainwatch.cli", "reload", "--state", str(state), "-c", str(mine)]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
            asked = process.poll()
            process.kill()
        assert asked is None, "a hangup would have ended it"
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"chainwatch: this state's configuration is {theirs}: ")
    finally:
        store.close()


def test_a_chain_that_goes_into_another_state_than_its_configurations_daemon_reads_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service sees neither the option nor the variable: nobody would look after that chain, and a second one of its name
    begins."""
    monkeypatch.setenv("PATH", f"{tools(tmp_path)}:/usr/bin:/bin")
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    config = tmp_path / "c.yaml"
    config.write_text(f"state: {tmp_path}/own\nchains: {{a: {{batch: train.sh}}, b: {{batch: train.sh}}}}\n")

    def said(*words: str) -> str:
        ask = [sys.executable, "-m", "chainwatch.cli", "submit", *words, "-c", str(config)]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "win over" not in said("a")
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "other"))
    wins = f"b is in {tmp_path}/other: --state and CHAINWATCH_STATE win over the configuration's {tmp_path}/own."
    assert wins in said("b")
    store = open_store(tmp_path / "other")
    store.remember(LAST_PASS, common.now().isoformat())
    store.close()
    assert "win over" not in said("a"), "somebody looks after it there"
