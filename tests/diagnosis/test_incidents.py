"""Many chains that end together: one cause of the cluster, until a probe shows that it is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from chainwatch.diagnosis.incidents import (
    BOUND,
    SETTLE,
    Held,
    Incident,
    find_incident,
    grown,
    may_be_one,
    part_of,
    probed,
)
from chainwatch.model.chain import Attempt
from chainwatch.model.verdict import Cause as C
from tests.recovery.build import NOW, ended

MINUTE = timedelta(minutes=1)


def end(cause: C, node: str, ago: float = 0) -> Attempt:
    attempt = ended(cause, ago=ago)
    return replace(attempt, job=replace(attempt.job, nodes=(node,)))


def incident(
    cause: C = C.STORAGE, *, began: float = 3, newest: float = 2, chains: tuple[str, ...] = ("a", "b")
) -> Incident:
    return Incident(cause, chains, ("n1", "n2"), NOW - began * MINUTE, NOW - newest * MINUTE)


def held(found: Incident) -> Held:
    grew = grown(None, found)
    assert grew is not None
    return grew


def test_what_a_dead_network_looks_like_to_slurm_to_nccl_and_to_the_start_is_one_incident() -> None:
    last = {"a": end(C.HARDWARE_NODE, "n1"), "b": end(C.NETWORK_FABRIC, "n2", 1), "c": end(C.HARDWARE_NODE, "n3", 2)}
    found = find_incident(last, NOW)
    assert found is not None
    assert (found.cause, found.chains, found.nodes) == (C.HARDWARE_NODE, ("c", "b", "a"), ("n1", "n2", "n3"))


@pytest.mark.parametrize(
    "last",
    [
        {"a": end(C.STORAGE, "n1"), "b": end(C.STORAGE, "n2"), "c": end(C.NETWORK_FABRIC, "n3")},
        {"a": end(C.STORAGE, "n1"), "b": end(C.STORAGE, "n1"), "c": end(C.STORAGE, "n1")},
        {"a": end(C.STORAGE, "n1"), "b": end(C.STORAGE, "n2", 20), "c": end(C.STORAGE, "n3", 40)},
        {"a": end(C.OOM_GPU, "n1"), "b": end(C.OOM_GPU, "n2"), "c": end(C.OOM_GPU, "n3")},
    ],
    ids=["storage and network", "one node", "an hour apart", "no cause of the cluster"],
)
def test_what_has_no_cause_in_common_is_no_incident(last: dict[str, Attempt]) -> None:
    assert find_incident(last, NOW) is None


@pytest.mark.parametrize(
    ("cause", "chains", "worth"),
    [(C.STORAGE, 3, True), (C.STORAGE, 2, False), (C.PREEMPTION, 9, False), (C.USER_CODE, 9, False)],
)
def test_an_end_waits_a_poll_only_where_three_chains_could_share_a_cause_of_the_cluster(
    cause: C, chains: int, worth: bool
) -> None:
    verdict = ended(cause).verdict
    assert verdict is not None
    assert may_be_one(verdict, chains) is worth


def test_nothing_found_changes_nothing() -> None:
    assert grown(None, None) is None
    assert part_of(None, "a", [end(C.STORAGE, "n1")]) is None
    under_way = held(incident())
    assert grown(under_way, None) is under_way


@pytest.mark.parametrize("other", [incident(C.NETWORK_FABRIC, newest=0), incident(began=60, newest=50)])
def test_what_has_another_cause_or_is_older_does_not_join_the_incident_under_way(other: Incident) -> None:
    under_way = held(incident())
    assert grown(under_way, other) is under_way


def test_later_ends_join_the_incident_under_the_same_notice() -> None:
    first = held(incident())
    more = grown(first, incident(began=1, newest=0, chains=("c", "d", "e")))
    assert more is not None
    assert more.key == first.key
    assert more.incident.chains == ("a", "b", "c", "d", "e")
    assert (more.incident.began, more.incident.newest) == (NOW - 3 * MINUTE, NOW)


def test_an_incident_lasts_until_two_probes_in_a_row_show_recovery() -> None:
    now = NOW + SETTLE
    one = probed(held(incident()), "", now)
    assert one.over is None
    assert probed(probed(one, "n1 is down", now), "", now).over is None, "the row began anew"
    over = probed(one, "", now + MINUTE)
    assert over.over == now + MINUTE
    assert not over.sentence()


def test_an_incident_that_no_probe_sees_recover_lasts() -> None:
    still = held(incident())
    for minute in range(2, 300):
        still = probed(still, "n1 is down", NOW + minute * MINUTE)
    assert still.over is None
    assert "n1 is down" in still.sentence()


def test_a_probe_right_after_the_last_end_does_not_count() -> None:
    fresh = held(incident(newest=0))
    assert probed(fresh, "", NOW + MINUTE) == fresh


def test_a_new_end_asks_for_new_probes() -> None:
    one = probed(held(incident()), "", NOW + MINUTE)
    assert one.good == 1
    more = grown(one, incident(began=1, newest=-1, chains=("c", "d", "e")))
    assert more is not None
    assert more.good == 0


def test_no_incident_lasts_for_ever() -> None:
    over = probed(held(incident()), "n1 is down", NOW + BOUND)
    assert over.over == NOW + BOUND
    assert "not recovered after 6 hours" in over.said
    assert probed(over, "", NOW + BOUND + MINUTE) is over, "over is over"


def test_the_same_ends_are_no_second_incident_and_later_ones_are() -> None:
    over = replace(held(incident()), over=NOW)
    assert grown(over, incident()) is over
    again = grown(over, incident(began=-5, newest=-6))
    assert again is not None
    assert again.over is None
    assert again.key != over.key


@pytest.mark.parametrize(
    ("attempts", "retried", "belongs"),
    [
        ((end(C.STORAGE, "n1", 2.5),), None, True),
        ((end(C.STORAGE, "n1", 2.5), end(C.PREEMPTION, "n1", 0)), None, False),
        ((end(C.STORAGE, "n1", 2.5),), NOW, False),
        ((), None, False),
    ],
    ids=["its last end", "it has gone on since", "a person sent it on", "nothing ended"],
)
def test_only_chains_whose_last_end_belongs_to_it_are_held(
    attempts: tuple[Attempt, ...], retried: datetime | None, belongs: bool
) -> None:
    assert (part_of(held(incident()), "a", attempts, retried) is not None) is belongs
    assert part_of(held(incident()), "z", attempts) is None
