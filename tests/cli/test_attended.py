"""A chain that nobody looks after is said to be so."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.attended import attended, warn_unattended
from chainwatch.store import open_store
from chainwatch.store.records import LAST_PASS
from chainwatch.supervisor.daemon import holder

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
