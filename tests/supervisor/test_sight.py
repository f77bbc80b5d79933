"""Which job belongs to which chain."""

from __future__ import annotations

from typing import Any

import pytest

from chainwatch.actions.tag import Tag
from chainwatch.model.job import Job, JobState
from chainwatch.supervisor.sight import Known, assign
from tests.supervisor.jobs import MINUTE, NOW, queued

OURS, OTHERS = "0123abcd", "ffff0000"
TOKEN = "0123456789abcdef"
LATER = NOW + MINUTE


def tag(token: str = TOKEN, instance: str = OURS, chain: str = "llama") -> str:
    return f"mine {Tag(instance, chain, token)}"


def known(chain: str = "llama", **more: Any) -> Known:
    given: dict[str, Any] = {"user": "ada", "ids": {}, "name": "train", **more}
    return Known(chain, **given)


def owner(job: Job, *chains: Known) -> str | None:
    found = assign([job], chains, OURS)
    assert len(found) <= 1
    return next(iter(found), None)


def test_a_job_with_one_of_our_tokens_is_ours_whatever_its_name() -> None:
    assert owner(queued(comment=tag(), name="x", user="y"), known(tokens=frozenset({TOKEN}))) == "llama"


def test_an_unknown_token_of_this_instance_and_a_foreign_instance_are_nobodys() -> None:
    chain = known(tokens=frozenset({"f" * 16}))
    assert owner(queued(comment=tag()), chain) is None
    rule = known(rule="name", adopt_after=NOW - MINUTE)
    assert owner(queued(comment=tag(instance=OTHERS)), rule) is None


def test_a_foreign_tag_does_not_take_an_attempt_away_that_is_known_by_its_identity() -> None:
    assert owner(queued(comment=tag(instance=OTHERS)), known(ids={7: NOW})) == "llama"


def test_an_attempt_that_is_not_over_is_known_by_its_id() -> None:
    assert owner(queued(), known(ids={7: NOW})) == "llama"
    assert owner(queued(), known(ids={8: NOW})) is None


def test_a_job_that_was_just_submitted_is_known_by_its_id_alone() -> None:
    assert owner(queued(name="anything"), known(ids={7: None})) == "llama"


def test_a_requeue_comes_back_under_a_new_submit_time() -> None:
    assert owner(queued(JobState.PENDING, submitted=LATER), known(ids={7: NOW})) == "llama"


@pytest.mark.parametrize("changed", [{"user": "bob"}, {"name": "other"}])
def test_the_same_id_of_somebody_or_something_else_is_a_reused_id(changed: dict[str, str]) -> None:
    assert owner(queued(submitted=LATER, **changed), known(ids={7: NOW})) is None


def test_a_whole_array_is_one_chain_and_its_tasks_in_order() -> None:
    chain = known(array_id=7)
    tasks = [queued(job_id=n, submitted=NOW, array_job_id=7, array_task=str(n - 7)) for n in (9, 8)]
    (found,) = assign(tasks, [chain], OURS).values()
    assert [j.job_id for j in found] == [8, 9]


def test_a_task_of_an_array_belongs_to_its_own_chain_also_by_token() -> None:
    chains = [known(f"sweep.{n}", array_id=7, array_task=str(n)) for n in range(3)]
    job = queued(job_id=8, array_job_id=7, array_task="1", comment=tag(chain="sweep"))
    assert owner(job, *chains) == "sweep.1"
    alone = known("sweep.2", tokens=frozenset({TOKEN}), array_id=9, array_task="2")
    assert owner(queued(job_id=9, array_job_id=9, array_task="2", comment=tag()), alone) == "sweep.2"
    assert owner(queued(job_id=9, array_job_id=9, array_task="3", comment=tag()), alone) is None


RULE = {"name": "train", "directory": "/run", "command": "/run/a.sh --x 1", "adopt_after": NOW}


def foreign(**more: Any) -> Job:
    given = {"submitted": LATER, "job_id": 9, "directory": "/run", "command": "/run/a.sh --x 1", **more}
    return queued(JobState.PENDING, **given)


@pytest.mark.parametrize(
    ("rule", "changed", "fits"),
    [
        ("name", {}, True),
        ("name", {"name": "trainer"}, False),
        ("name+directory", {}, True),
        ("name+directory", {"directory": "/elsewhere"}, False),
        ("name+directory", {"command": "/run/b.sh"}, True),
        ("name+directory+command", {"command": "/run/a.sh --x 2"}, False),
        ("script", {"command": "/run/a.sh --x 2", "name": "y"}, True),
        ("script", {"command": "/run/ab.sh"}, False),
        ("directory", {"name": "y"}, True),
        ("name", {"user": "bob"}, False),
        ("name", {"submitted": NOW}, True),
        ("name", {"submitted": NOW - MINUTE}, False),
        ("directory", {"directory": ""}, False),
        (None, {}, False),
    ],
)
def test_a_job_of_somebody_else_is_adopted_by_the_rule(rule: str | None, changed: dict[str, Any], fits: bool) -> None:
    chain = known(rule=rule, **RULE)
    assert owner(foreign(**changed), chain) == ("llama" if fits else None)


def test_an_empty_field_matches_no_other_empty_field() -> None:
    chain = known(rule="directory", adopt_after=NOW, name="")
    assert owner(foreign(directory=""), chain) is None


def test_a_job_that_fits_several_chains_goes_to_none_unless_the_command_tells_them_apart() -> None:
    first, second = (known(n, rule="name+directory", **{**RULE, "command": c}) for n, c in (("a", "/a"), ("b", "/b")))
    assert owner(foreign(command="/c"), first, second) is None
    assert owner(foreign(command="/b"), first, second) == "b"
    same = known("c", rule="name+directory", **{**RULE, "command": "/b"})
    assert owner(foreign(command="/b"), first, second, same) is None


def test_a_het_job_is_one_job_and_its_leader_stands_for_it() -> None:
    parts = [queued(job_id=n, het_job_id=7, shown_id=f"7+{n - 7}", comment=tag()) for n in (7, 8, 9)]
    found = assign(parts, [known(tokens=frozenset({TOKEN}), rule="name", adopt_after=NOW - MINUTE)], OURS)
    assert [j.job_id for j in found["llama"]] == [7]
