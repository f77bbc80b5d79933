"""What is said when something is wanted of a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.wishes import resume, retry, stop
from chainwatch.model.chain import ChainState, Mode
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


def test_a_chain_whose_job_lives_is_not_said_to_be_submitted_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, now = open_store(tmp_path), common.now()
    for name, state in (("a", ChainState.RUNNING), ("b", ChainState.RESTING)):
        store.add_chain(
            ChainRecord(
                name=name, cluster="c", origin=Origin.CONFIG, mode=Mode.ACT, settings={}, created=now, state=state
            )
        )
        retry(name, cohort=False, json=False, state=tmp_path)
    store.close()
    assert capsys.readouterr().out == (
        "a: its job goes on, and budgets count from here\nb: the next pass of the daemon submits the next job\n"
    )
