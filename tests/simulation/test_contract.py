"""The simulated cluster keeps the contract that real ones keep, so that what is proven on it holds there."""

from __future__ import annotations

import dataclasses

import pytest

from chainwatch.slurm.contract import CASES, Can, CannotPlay, Case, Program, submission
from tests.simulation.stage import SHORT, SimulatedStage


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulated_cluster_keeps_the_contract(case: Case, release: str) -> None:
    stage = SimulatedStage(dataclasses.replace(SHORT, release=release))
    stage.backend.submit(submission(stage, Program(), "--hold"))
    try:
        case.run(stage)
    except CannotPlay as reason:
        pytest.skip(str(reason))


def test_all_cases_can_be_played_one_after_the_other_on_one_cluster() -> None:
    stage = SimulatedStage()
    for case in CASES:
        try:
            case.run(stage)
        except CannotPlay:
            continue


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_simulated_site_without_accounting_keeps_what_is_left_of_the_contract(case: Case) -> None:
    stage = SimulatedStage(dataclasses.replace(SHORT, accounting=False))
    stage.can = stage.can - {Can.ACCOUNTING, Can.ACCOUNTING_DOWN}
    stage.backend.submit(submission(stage, Program(), "--hold"))
    try:
        case.run(stage)
    except CannotPlay as reason:
        why = str(reason)
    else:
        why = ""
    assert not why or "accounting" in why or "running job" in why
