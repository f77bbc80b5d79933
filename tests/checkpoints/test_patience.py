"""Storage that hangs stalls a child, never the command."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import chainwatch.checkpoints  # noqa: F401 - the module below is looked up by name
from chainwatch.checkpoints.patience import Killed, StandsStill, bounded
from chainwatch.cli.__main__ import main


def test_the_exit_code_of_the_work_comes_back() -> None:
    assert bounded(lambda: 3, 5) == 3


def test_a_child_that_stands_still_is_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(StandsStill):
        bounded(lambda: signal.pause() or 0, 0.4)  # type: ignore[func-returns-value]
    assert time.monotonic() - began < 20


def test_a_child_that_takes_long_but_moves_is_not_given_up() -> None:
    def work() -> int:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            os.stat("/")
            time.sleep(0.01)
        return 0

    assert bounded(work, 0.4) == 0


def test_a_child_that_is_killed_is_said_to_be_killed() -> None:
    with pytest.raises(Killed, match="signal 9"):
        bounded(lambda: os.kill(os.getpid(), signal.SIGKILL) or 0, 5)  # type: ignore[func-returns-value]


def test_a_fault_in_the_child_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise RuntimeError("odd")

    assert bounded(work, 5) == 2
    assert capfd.readouterr().err == "chainwatch: RuntimeError: odd (a fault of chainwatch)\n"


@pytest.mark.parametrize("command", ["latest", "verify"])
def test_a_command_whose_storage_hangs_says_so_in_bounded_time(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def hang(*_: object, **__: object) -> None:
        signal.pause()

    monkeypatch.setattr(sys.modules["chainwatch.checkpoints.verify"], "take_inventory", hang)
    code = main([command, str(tmp_path), "--patience", "0.4"])
    out, err = capfd.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "its storage hangs" in err
