"""What `status` and `explain` say of a chain to a person who looks in the morning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chainwatch.cli import common
from chainwatch.cli.status import explain, status
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, ChainState, Mode
from chainwatch.model.verdict import Cause
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin
from tests.recovery.build import ended


def remember(state: Path, *attempts: Attempt, **settings: Any) -> None:
    """A chain `run` with this past."""
    store, now = open_store(state), common.now()
    chain = Chain.model_validate({"batch": "/run/x.sh", **settings}).model_dump(mode="json")
    with store.transaction():
        record = ChainRecord("run", "c", Origin.CONFIG, Mode.ACT, chain, now, state=ChainState.RESTING, state_since=now)
        store.add_chain(record)
        for number, attempt in enumerate(attempts, start=1):
            identity = replace(attempt.job.attempt, job_id=number)
            store.put_attempt("run", replace(attempt, number=number, job=replace(attempt.job, attempt=identity)))
    store.close()


@pytest.mark.parametrize(("given", "off"), [({"recovery": False}, True), ({}, False)])
def test_that_recovery_is_off_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], off: bool
) -> None:
    remember(tmp_path, **given)
    status(json=False, state=tmp_path)
    assert ("(recovery off)" in capsys.readouterr().out) is off
    status(json=True, state=tmp_path)
    assert json.loads(capsys.readouterr().out)[0]["recovery"] is not off


def test_explain_compares_with_the_last_attempt_that_progressed_and_not_with_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = ended(Cause.PREEMPTION, saved=20, before=10, ago=300)
    good = replace(
        good, commit="aaaa", script_digest="sha256:1111", image="a.sqsh", variables=("HOME", "NCCL_DEBUG"),
        job=replace(good.job, nodes=("n1",)),
    )  # fmt: skip
    middle = replace(ended(Cause.UNKNOWN, before=20, ago=200), commit="cccc", job=replace(good.job, nodes=("n3",)))
    last = replace(
        ended(Cause.USER_CODE, before=20), commit="bbbb+", script_digest="sha256:2222", image="b.sqsh",
        variables=("HOME", "WANDB_MODE"), job=replace(good.job, nodes=("n2",)),
    )  # fmt: skip
    remember(tmp_path, good, middle, last)
    explain("run", json=False, state=tmp_path)
    out = capsys.readouterr().out
    assert "batch script: sha256:1111 in attempt 1, sha256:2222 now" in out
    assert "git commit: aaaa in attempt 1, bbbb with uncommitted changes now" in out
    assert "container image: a.sqsh in attempt 1, b.sqsh now" in out
    assert "nodes: n1 in attempt 1, n2 now" in out
    assert "environment: new since attempt 1: WANDB_MODE" in out
    assert "environment: gone since attempt 1: NCCL_DEBUG" in out
    assert "cccc" not in out
