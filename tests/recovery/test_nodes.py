"""Which nodes the next job keeps away from, and how many it is left."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from chainwatch.config.models import Nodes
from chainwatch.model.chain import ExcludedNode, History, Resubmit
from chainwatch.model.verdict import Cause
from chainwatch.recovery import decide, for_chain, shared
from chainwatch.recovery.nodes import to_exclude
from tests.recovery.build import NOW, ended, situation

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def excluded(node: str, chain: str | None, since: int = 1, until: int = 24) -> ExcludedNode:
    return ExcludedNode(node, f"hardware_gpu: Xid 79 on {node}", NOW - since * HOUR, NOW + until * HOUR, chain)


def test_a_node_that_ended_jobs_of_two_chains_is_kept_away_from_by_a_third() -> None:
    [one] = for_chain([excluded("n1", "a", 5, 10), excluded("n1", "b", 2, 20), excluded("n2", "a")], "c", NOW)
    assert one.node == "n1"
    assert one.why == "suspect, it ended jobs of a and b: hardware_gpu: Xid 79 on n1"
    assert one.until == NOW + 20 * HOUR
    assert one.chain is None


def test_what_one_chain_alone_suffered_is_its_own_affair() -> None:
    assert for_chain([excluded("n1", "a")], "c", NOW) == ()
    assert [e.node for e in for_chain([excluded("n1", "a"), excluded("n3", None)], "a", NOW)] == ["n1", "n3"]


def test_a_suspicion_ends_with_the_exclusions_that_it_is_made_of() -> None:
    assert for_chain([excluded("n1", "a"), excluded("n1", "b", 30, -1)], "c", NOW) == ()


def test_what_is_over_and_what_holds_for_all_makes_no_node_suspect() -> None:
    assert shared([excluded("n1", "a"), excluded("n1", "b", 30, -1)], NOW) == ()
    assert shared([excluded("n1", "a"), excluded("n1", None)], NOW) == ()


def test_a_chain_has_a_node_once_though_it_is_its_own_and_suspect() -> None:
    assert len(for_chain([excluded("n1", "a"), excluded("n1", "b")], "a", NOW)) == 1


def test_as_many_nodes_as_the_job_needs_are_left_whatever_the_share_allows() -> None:
    past = History("night", excluded=tuple(excluded(f"n{i}", "night", i + 1) for i in range(8)))
    policy = Nodes(max_share=0.5)
    assert to_exclude(past, policy, NOW, 8, needed=1) == ("n0", "n1", "n2", "n3")
    assert to_exclude(past, policy, NOW, 8, needed=6) == ("n0", "n1"), "the newest"
    assert to_exclude(past, policy, NOW, 8, needed=8) == ()
    assert to_exclude(past, policy, NOW, 6, needed=8) == (), "the partition has shrunk"


def test_the_size_of_the_last_job_is_what_the_next_one_needs() -> None:
    whole = ended(Cause.HARDWARE_GPU, saved=20, before=10)
    whole = replace(whole, job=replace(whole.job, nodes=tuple(f"n{i}" for i in range(8))))
    s = situation(whole)
    bad = ExcludedNode("n3", "ecc", NOW, NOW + DAY, "night")
    s = replace(s, history=replace(s.history, excluded=(bad,)))
    eight, twelve = decide(replace(s, partition_size=8)), decide(replace(s, partition_size=12))
    assert isinstance(eight, Resubmit)
    assert isinstance(twelve, Resubmit)
    assert (eight.exclude, twelve.exclude) == ((), ("n3",))
