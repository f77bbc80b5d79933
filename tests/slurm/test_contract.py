"""The contract itself: its cases are told apart, and a broken promise, a refusal to play and a crash are seen."""

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chainwatch.slurm.contract import CASES, Broken, Can, CannotPlay, Case, Result, Stage, play
from chainwatch.slurm.contract.look import refused, silent

NOWHERE = cast(Stage, SimpleNamespace(can=frozenset({Can.SUBMIT})))


def _case(then: Any, *needs: Can) -> Case:
    def tell(stage: Stage) -> None:
        if isinstance(then, BaseException):
            raise then

    return Case("name", "A sentence.", tell, frozenset(needs))


def test_names_are_unique_and_every_case_says_what_it_promises() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 30
    assert all(case.sentence.endswith(".") for case in CASES)


def test_only_cases_that_need_nothing_may_run_against_a_live_cluster() -> None:
    assert {case.play.__module__.rpartition(".")[2] for case in CASES if case.read_only} == {"reading"}


@pytest.mark.parametrize(
    ("then", "result"),
    [
        (None, Result.PASSED),
        (Broken("the queue lies"), Result.FAILED),
        (KeyError("x"), Result.FAILED),
        (CannotPlay("no nodes"), Result.SKIPPED),
    ],
)
def test_every_way_to_end_is_told_with_its_reason(then: Any, result: Result) -> None:
    (outcome,) = play(NOWHERE, [_case(then)])
    assert outcome.result is result
    assert bool(outcome.why) == (then is not None)


def test_what_a_stage_cannot_do_is_skipped_and_named() -> None:
    (outcome,) = play(NOWHERE, [_case(Broken("never played"), Can.SUBMIT, Can.HET_JOBS)])
    assert outcome.result is Result.SKIPPED
    assert "het jobs" in outcome.why


def test_a_made_up_answer_is_no_silence_and_no_refusal() -> None:
    with pytest.raises(Broken, match="an answer where there can be none"):
        silent(list)
    with pytest.raises(Broken, match="granted"):
        refused(lambda: 7)


def test_the_contract_needs_no_pytest() -> None:
    import subprocess

    code = "import sys, chainwatch.slurm.contract; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_cases_do_not_use_assert_which_an_optimising_python_drops() -> None:
    import inspect

    from chainwatch.slurm.contract import MODULES

    assert not [m.__name__ for m in MODULES if "    assert " in inspect.getsource(m)]
