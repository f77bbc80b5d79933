"""The command line backend keeps its contract on a real Slurm: real jobs, real ends, real outages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from dev.matrix.play import WAITING
from dev.slurm.stage import RealStage

from chainwatch.slurm.contract import CASES, CannotPlay, Case

pytestmark = [pytest.mark.slurm, pytest.mark.slow(5)]


@pytest.fixture(scope="module")
def begun(stage: RealStage) -> Iterator[dict[str, Future[None]]]:
    """The waiting cases, under way."""
    with ThreadPoolExecutor(len(WAITING)) as pool:
        yield {case.name: pool.submit(case.run, stage) for case in CASES if case.name in WAITING}


@pytest.mark.parametrize(
    "case", sorted(CASES, key=lambda case: case.name in WAITING), ids=lambda case: case.name
)  # those that wait come last
def test_the_backend_keeps_its_contract(case: Case, stage: RealStage, begun: dict[str, Future[None]]) -> None:
    try:
        if case.name in begun:
            begun[case.name].result(timeout=170)
        else:
            case.run(stage)
    except CannotPlay as reason:
        pytest.skip(str(reason))
