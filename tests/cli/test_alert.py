"""Trying the channels, from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.alerts.conftest import Server, server

__all__ = ["server"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chainwatch.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def config(tmp_path: Path, server: Server) -> Path:
    (tmp_path / "url").write_text(server.url)
    (tmp_path / "url").chmod(0o600)
    file = tmp_path / "c.yaml"
    file.write_text(f"alerts: {{channels: {{team: {{type: slack, url_file: {tmp_path}/url}}}}}}\n")
    return file


def test_a_channel_is_tried_and_the_answer_is_told(config: Path, server: Server) -> None:
    done = run("alert", "test", "--config", str(config))
    assert (done.returncode, done.stdout) == (0, "team: taken; look whether you can read it\n")
    assert "This is a test alert" in json.dumps(server.documents[0])
    server.script = [{"status": 404, "body": b"no_service"}]
    done = run("alert", "test", "team", "--config", str(config), "--json")
    assert done.returncode == 1
    assert "no_service" in json.loads(done.stdout)["team"]["why"]
    assert "verysecret" not in done.stdout + done.stderr


def test_what_is_not_configured_is_said_in_a_sentence(config: Path, tmp_path: Path) -> None:
    done = run("alert", "test", "none", "--config", str(config))
    assert (done.returncode, "configured: team" in done.stderr) == (2, True)
    (tmp_path / "empty.yaml").write_text("chains: {}\n")
    done = run("alert", "test", "--config", str(tmp_path / "empty.yaml"))
    assert (done.returncode, "no alert channel is configured" in done.stderr) == (2, True)
    assert run("alert", "test", "--config", str(tmp_path / "gone.yaml")).returncode == 2


@pytest.mark.parametrize("name", ["url", "url_file", "hook", "url_env"])
def test_a_secret_pasted_anywhere_in_a_channel_is_never_printed(tmp_path: Path, name: str) -> None:
    secret = "https://hooks.slack.com/services/T0/B0/verysecret"
    (tmp_path / "c.yaml").write_text(f"alerts: {{channels: {{team: {{type: slack, {name}: '{secret}'}}}}}}\n")
    for command in (("check", str(tmp_path / "c.yaml")), ("alert", "test", "--config", str(tmp_path / "c.yaml"))):
        done = run(*command)
        assert done.returncode == 2
        assert "verysecret" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_the_schema_is_printed() -> None:
    assert json.loads(run("alert", "schema").stdout)["title"] == "WebhookDocument"


def test_reload_needs_a_daemon(tmp_path: Path, config: Path) -> None:
    from chainwatch.store import open_store

    open_store(tmp_path / "state").close()
    done = run("reload", "--state", str(tmp_path / "state"))
    assert (done.returncode, "no daemon is at work" in done.stderr) == (1, True)
    config.write_text("chains: 7\n")
    assert run("reload", "--state", str(tmp_path / "state"), "--config", str(config)).returncode == 2


def test_the_doctor_runs_anywhere(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsrun python t.py | tee log\n")
    (tmp_path / "c.yaml").write_text(f"state: {tmp_path}/state\nchains: {{a: {{batch: {tmp_path}/job.sh}}}}\n")
    done = run("doctor", str(tmp_path / "c.yaml"), "--json")
    codes = {finding["code"] for finding in json.loads(done.stdout)}
    assert done.returncode == (4 if "controller" in codes else 1)
    assert {"script", "no_channel"} <= codes
    assert "Traceback" not in done.stderr
    assert run("doctor", str(tmp_path / "gone.yaml")).returncode == 2
