"""What differs from the last attempt that progressed."""

from __future__ import annotations

from dataclasses import replace

from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause as C
from chainwatch.reports import changed, last_that_progressed, variables
from tests.recovery.build import ended


def attempt(number: int, **given: object) -> Attempt:
    job = {k: given.pop(k) for k in ("nodes", "partition", "qos") if k in given}
    base = ended(C.UNKNOWN, before=given.pop("before", 0), saved=given.pop("saved", 0))  # type: ignore[arg-type]
    return replace(base, number=number, job=replace(base.job, **job), **given)  # type: ignore[arg-type]


def test_everything_that_was_recorded_is_compared() -> None:
    good = attempt(
        1, saved=10, script_digest="sha256:aaaaaaaaaaaaaaaa", commit="0a1b2c3d4e5f", image="/i/a.sif", nodes=("n1",),
        qos="low", variables=("HOME", "TOKEN"),
    )  # fmt: skip
    bad = attempt(
        2, script_digest="sha256:bbbbbbbbbbbbbbbb", commit="0a1b2c3d4e5f+", image="/i/b.sif", nodes=("n2",), qos="high",
        variables=("HOME", "NCCL_DEBUG"),
    )  # fmt: skip
    assert changed(good, bad) == [
        "batch script: sha256:aaaaaaaaaaaa in attempt 1, sha256:bbbbbbbbbbbb now",
        "git commit: 0a1b2c3d4e5f in attempt 1, 0a1b2c3d4e5f with uncommitted changes now",
        "container image: /i/a.sif in attempt 1, /i/b.sif now",
        "nodes: n1 in attempt 1, n2 now",
        "QOS: low in attempt 1, high now",
        "environment: new since attempt 1: NCCL_DEBUG",
        "environment: gone since attempt 1: TOKEN",
    ]


def test_what_is_not_known_of_both_is_not_compared() -> None:
    assert changed(attempt(1, image="/i/a.sif", variables=("A",)), attempt(2)) == []
    assert changed(None, attempt(2, image="/i/b.sif")) == []


def test_an_image_that_the_edited_script_no_longer_names_is_told() -> None:
    before, after = attempt(1, image="/i/a.sif", script_digest="sha256:a"), attempt(2, script_digest="sha256:a")
    assert changed(before, after) == ["container image: /i/a.sif in attempt 1, none now"]


def test_the_comparison_is_with_the_last_attempt_that_saved_something() -> None:
    every = [
        attempt(1, saved=10),
        attempt(2, before=10, saved=20),
        attempt(3, before=20, saved=20),
        attempt(4, before=20),
    ]
    assert last_that_progressed(every, every[3]) is every[1]
    assert last_that_progressed(every, every[0]) is None


def test_of_the_environment_only_what_changed_is_told_and_our_own_variables_are_no_news() -> None:
    many = tuple(f"V{n}" for n in range(40))
    before = attempt(1, saved=10, variables=(*many, "OLD"))
    after = attempt(2, variables=(*many, "NEW", "CHAINWATCH_AVOID"))
    assert variables(before, after) == {"new": {"NEW"}, "gone": {"OLD"}}
    assert variables(None, after) == variables(before, attempt(2)) == {"new": set(), "gone": set()}
    assert changed(before, attempt(2, variables=(*many, "OLD", "CHAINWATCH_AVOID"))) == []
