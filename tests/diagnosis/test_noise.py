"""What healthy programs print at their start and while they die changes no verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnosis.endings import Ending, endings, judged

HERE = Path(__file__).parent
CASES = [c for c in endings(HERE / "cases") if c.slurm["state"] == "FAILED"]
NOISE = (HERE / "noise.txt").read_text(encoding="utf-8")
START, END = NOISE.split("==== the end ====\n")


def answers(ending: Ending, folder: Path) -> bool:
    verdict = judged(ending, folder)
    return verdict.cause.value in ending.causes and verdict.retry.value in ending.retries


@pytest.mark.parametrize(("above", "below"), [(START, ""), ("", END), (START, END)], ids=["above", "below", "both"])
def test_noise_around_an_ending_changes_no_verdict(above: str, below: str, tmp_path: Path) -> None:
    flipped = [
        case.id
        for case in CASES
        if answers(case, tmp_path)
        and not answers(replace(case, log=above + case.log.rstrip("\n") + "\n" + below), tmp_path)
    ]
    assert flipped == []
