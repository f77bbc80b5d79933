"""When the end of a job leaves no use for the standby behind it: the next job would be another one."""

from __future__ import annotations

from typing import Any

import pytest

from chainwatch.model.chain import Decision, FromScratch, History, LeaveAlone, Rest, Resubmit, Wait
from chainwatch.supervisor.standby import _differs
from tests.recovery.build import NOW

STANDS = {"exclude": ["n1"], "avoid": ["/run/step20"], "extra": ["--nice=5"]}
SAME: dict[str, Any] = {"exclude": ("n1",), "avoid": ("/run/step20",), "extra": ("--nice=5",)}


def again(**other: Any) -> Resubmit:
    return Resubmit(FromScratch(""), "", **{**SAME, **other})


@pytest.mark.parametrize("decision", [again(), again(exclude=()), LeaveAlone("")])
def test_a_standby_that_is_just_that_job_stays(decision: Decision) -> None:
    assert _differs(decision, STANDS, History("run")) == ""


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (again(exclude=("n1", "n2")), "keeps away from n1, n2"),
        (again(avoid=("/run/step20", "/run/step30")), "other checkpoints"),
        (again(avoid=()), "other checkpoints"),
        (again(extra=("--qos=normal",)), "other options"),
        (Rest("exhausted", ""), "exhausted"),
        (Wait(NOW, "storage"), "storage"),
    ],
    ids=["a node", "a checkpoint more", "one that was written anew", "options", "rest", "wait"],
)
def test_a_standby_that_the_end_calls_wrong_goes_with_a_reason(decision: Decision, why: str) -> None:
    assert why in _differs(decision, STANDS, History("run"))
