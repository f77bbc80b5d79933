"""What is said when something is wanted of a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.wishes import resume, stop
from chainwatch.model.chain import Mode
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin


def test_what_becomes_of_the_job_and_when_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, now = open_store(tmp_path), common.now()
    store.add_chain(
        ChainRecord(
            name="run", cluster="c", origin=Origin.CONFIG, mode=Mode.ACT, settings={}, created=now, state_since=now
        )
    )
    store.close()
    stop("run", cancel=False, why="", json=False, state=tmp_path)
    assert "goes on (`--cancel` ends it)" in capsys.readouterr().out
    resume("run", json=False, state=tmp_path)
    assert capsys.readouterr().out == "run: looked after again, at the daemon's next pass\n"
