"""Notices, nodes, the journal, counters and memory."""

from __future__ import annotations

import pytest

from chainwatch.model.chain import ExcludedNode
from chainwatch.store import Store, StoreError
from tests.store.build import MINUTE, NOW, record


def test_a_key_is_told_once_until_it_recovers(store: Store) -> None:
    store.add_chain(record())
    assert store.owe("llama", "llama:hang", "critical", "hangs", {"what": "no step for 40m"}, NOW)
    assert not store.owe("llama", "llama:hang", "critical", "hangs", {}, NOW)
    [notice] = store.due_notices(NOW)
    assert (notice.chain, notice.title, notice.body) == ("llama", "hangs", {"what": "no step for 40m"})
    store.delivered(notice.id, NOW)
    assert store.due_notices(NOW) == []
    assert not store.owe("llama", "llama:hang", "critical", "hangs", {}, NOW), "told already"
    assert [n.key for n in store.active_notices("llama")] == ["llama:hang"]
    assert store.recover("llama:hang", NOW)
    assert not store.recover("llama:hang", NOW)
    assert store.active_notices() == []
    assert store.owe("llama", "llama:hang", "critical", "hangs again", {}, NOW)


def test_what_nobody_got_stays_owed_when_it_recovers(store: Store) -> None:
    store.owe(None, "slurm:down", "warning", "Slurm is silent", {}, NOW)
    store.recover("slurm:down", NOW + MINUTE)
    assert [(n.title, n.chain, n.recovered) for n in store.due_notices(NOW + MINUTE)] == [
        ("Slurm is silent", None, NOW + MINUTE)
    ]


def test_a_failed_delivery_is_due_again_at_its_time(store: Store) -> None:
    store.owe(None, "k", "info", "t", {}, NOW)
    [notice] = store.due_notices(NOW)
    store.failed(notice.id, NOW, "HTTP 503", NOW + MINUTE)
    assert store.due_notices(NOW) == []
    [again] = store.due_notices(NOW + MINUTE)
    assert (again.tries, again.last_error, again.next_try) == (1, "HTTP 503", NOW + MINUTE)
    assert store.undelivered() == [again]
    with pytest.raises(ValueError):
        store.failed(notice.id, NOW, "x", NOW - MINUTE)


def test_a_notice_that_does_not_exist_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no notice 99"):
        store.delivered(99, NOW)


def test_nodes_are_excluded_for_a_time_and_for_a_chain_or_all(store: Store) -> None:
    store.add_chain(record())
    store.add_chain(record("other"))
    mine = ExcludedNode("n1", "Xid 79", NOW, NOW + MINUTE, "llama")
    everyones = ExcludedNode("n2", "drained", NOW, NOW + 2 * MINUTE)
    others = ExcludedNode("n1", "Xid 48", NOW, NOW + 3 * MINUTE, "other")
    for excluded in (mine, everyones, others):
        store.exclude(excluded)
    assert store.excluded(NOW) == [mine, everyones, others]
    assert store.excluded(NOW, "llama") == [mine, everyones]
    assert store.excluded(NOW + MINUTE, "llama") == [everyones]
    longer = ExcludedNode("n1", "Xid 79 again", NOW + MINUTE, NOW + 9 * MINUTE, "llama")
    store.exclude(longer)
    assert store.excluded(NOW, "llama") == [everyones, longer]
    assert store.unexclude("n1", "llama")
    assert not store.unexclude("n1", "llama")
    assert store.unexclude("n2", None)
    assert store.excluded(NOW) == [others]


def test_a_move_is_written_down_before_it_is_made(store: Store) -> None:
    store.add_chain(record())
    path = "/ckpt/\udce9/step 5"  # a name that is not UTF-8 must be found again byte for byte
    move = store.plan_move("llama", "set_aside", path, path + ".aside", "", "truncated", NOW)
    other = store.plan_move(None, "pointer", "/ckpt/latest", "step4", "step5\n", "names a damaged one", NOW)
    assert store.moves(state="planned") == [move, other]
    assert store.moves(path=path) == [move]
    made = store.mark_move(move.id, "made", NOW + MINUTE)
    assert (made.state, made.path, made.chain) == ("made", path, "llama")
    assert store.moves(state="planned") == [other]
    with pytest.raises(ValueError, match="lost"):
        store.mark_move(move.id, "lost", NOW)
    with pytest.raises(StoreError, match="no move 99"):
        store.mark_move(99, "made", NOW)


def test_counters_add_up_per_label_set(store: Store) -> None:
    store.bump("submissions", {"chain": "a", "why": "preempted"})
    store.bump("submissions", {"why": "preempted", "chain": "a"}, 2)
    store.bump("submissions", {})
    assert store.counters() == [
        ("submissions", {"chain": "a", "why": "preempted"}, 3.0),
        ("submissions", {}, 1.0),
    ]


def test_small_facts_are_remembered_replaced_and_forgotten(store: Store) -> None:
    assert store.recall("x") is None
    store.remember("x", {"a": [1, None, "é"]})
    store.remember("x", {"a": [2]})
    assert store.recall("x") == {"a": [2]}
    store.remember("x", None)
    assert store.recall("x") is None
