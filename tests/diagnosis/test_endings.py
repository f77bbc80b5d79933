"""Real endings: cause and retry are right, and no mistake is of the kind that costs a run or a week."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from tests.diagnosis.endings import Ending, endings, judged

CASES = tuple(endings(Path(__file__).parent / "cases"))
FURTHER = tuple(endings(Path(__file__).parent / "further_endings.yaml"))
UNSEEN = tuple(case for place in sorted(Path(__file__).parent.glob("unseen_*.yaml")) for case in endings(place))
EVERY = (*CASES, *FURTHER, *UNSEEN)


class Verdicts(dict[str, Verdict]):
    """The verdict on each ending by its id, judged when somebody asks: each worker judges what its tests ask for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._endings = {case.id: case for case in EVERY}

    def __missing__(self, name: str) -> Verdict:
        self[name] = judged(self._endings[name], self._folder)
        return self[name]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    return Verdicts(tmp_path_factory.mktemp("endings"))


@pytest.mark.parametrize("cases", [CASES, FURTHER, UNSEEN], ids=["cases", "further", "unseen"])
def test_cause_is_right_in_95_of_100_and_retry_in_97(cases: tuple[Ending, ...], verdicts: Verdicts) -> None:
    confusion: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    causes = retries = 0
    for case in cases:
        verdict = verdicts[case.id]
        right_cause = verdict.cause.value in case.causes
        right_retry = verdict.retry.value in case.retries
        causes += right_cause
        retries += right_retry
        confusion[case.cause, verdict.cause.value] += 1
        if not (right_cause and right_retry):
            wrong.append(f"{case.id}: {verdict.cause.value}/{verdict.retry.value}, wanted {case.cause}/{case.retry}")
    print(_table(confusion))
    print(f"cause {causes}/{len(cases)}, retry {retries}/{len(cases)}", *wrong, sep="\n")
    assert causes >= 0.95 * len(cases), wrong
    assert retries >= 0.97 * len(cases), wrong


def test_a_completed_run_is_never_resubmitted(verdicts: Verdicts) -> None:
    completed = [case.id for case in EVERY if case.cause == "completed"]
    assert completed
    assert [i for i in completed if verdicts[i].retry is not Retry.NO] == []


def test_a_no_is_never_a_yes(verdicts: Verdicts) -> None:
    final = [case.id for case in EVERY if case.retries == {"no"}]
    assert final
    assert [i for i in final if verdicts[i].retry is not Retry.NO] == []


def test_nothing_unfinished_is_called_done(verdicts: Verdicts) -> None:
    unfinished = [case.id for case in EVERY if case.cause != "completed"]
    assert unfinished
    done = [i for i in unfinished if verdicts[i].outcome is Outcome.DONE or verdicts[i].cause is Cause.COMPLETED]
    assert done == []


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_the_root_line_is_quoted_verbatim(case: Ending, verdicts: Verdicts) -> None:
    assert verdicts[case.id].root_line in case.roots


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_only_the_culprit_is_named(case: Ending, verdicts: Verdicts) -> None:
    assert verdicts[case.id].culprit_nodes == ((case.culprit,) if case.culprit else ())


def _table(confusion: Counter[tuple[str, str]]) -> str:
    wanted = sorted({row for row, _ in confusion})
    given = sorted({column for _, column in confusion})
    head = " " * 20 + " ".join(f"{name[:10]:>10}" for name in given)
    rows = (f"{row:<20}" + " ".join(f"{confusion[row, c] or '.':>10}" for c in given) for row in wanted)
    return "\n".join([head, *rows])
