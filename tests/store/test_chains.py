from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from chainwatch.model.chain import ChainState, Desired, ExcludedNode, Mode
from chainwatch.store import ChainExists, IntentOpen, Store, StoreError, UnknownChain
from chainwatch.store.records import IntentKind, IntentStatus
from tests.store.build import MINUTE, NOW, attempt, record


def test_a_chain_comes_back_as_it_was_written(store: Store) -> None:
    full = record(
        desired=Desired.PAUSE,
        desired_at=NOW,
        desired_until=NOW + MINUTE,
        state=ChainState.WAITING,
        sentence="waits: \N{SNOWMAN} 'quotes'\nand a new line",
        step=2**40,
        environment={"PATH": "/bin", "BYTES": "a\udce9"},
        pinned_script="/home/\udce9/x.sh",
        facts={"list": [1, 2.5, None, {"a": True}]},
    )
    store.add_chain(full)
    assert store.chain("llama") == full
    assert store.chains() == [full]


def test_a_time_of_another_zone_is_the_same_moment(store: Store) -> None:
    store.add_chain(record(created=NOW.astimezone(timezone(timedelta(hours=9)))))
    found = store.chain("llama")
    assert found is not None
    assert found.created == NOW
    assert found.created.utcoffset() == timedelta(0)


def test_a_name_is_registered_once(store: Store) -> None:
    store.add_chain(record())
    with pytest.raises(ChainExists, match="llama"):
        store.add_chain(record())


def test_an_update_touches_only_the_fields_it_names(store: Store) -> None:
    store.add_chain(record())
    stale = store.chain("llama")
    store.update_chain("llama", desired=Desired.PAUSE, desired_at=NOW)
    updated = store.update_chain("llama", state=ChainState.RUNNING, step=5)
    assert stale is not None
    assert updated == replace(stale, desired=Desired.PAUSE, desired_at=NOW, state=ChainState.RUNNING, step=5)


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"},
        {"state": "running"},
        {"step": "12"},
        {"created": None},
        {"created": NOW.replace(tzinfo=None)},
        {"mode": Desired.RUN},
    ],
    ids=str,
)
def test_an_update_that_is_not_of_the_fields_type_is_refused(store: Store, changes: dict[str, object]) -> None:
    store.add_chain(record())
    with pytest.raises(StoreError):
        store.update_chain("llama", **changes)
    assert store.chain("llama") == record()


def test_an_unknown_chain_is_an_error_that_names_it(store: Store) -> None:
    assert store.chain("ghost") is None
    with pytest.raises(UnknownChain, match="ghost"):
        store.update_chain("ghost", step=1)
    with pytest.raises(UnknownChain, match="ghost"):
        store.put_attempt("ghost", attempt())


def test_a_forgotten_chain_leaves_its_name_free_and_its_history_readable(store: Store) -> None:
    store.add_chain(record())
    store.put_attempt("llama", attempt(7))
    store.exclude(ExcludedNode("n1", "xid", NOW, NOW + MINUTE, "llama"))
    kept = store.forget_chain("llama")
    assert store.chain("llama") is None
    assert store.chains() == []
    assert store.live_attempts() == []
    assert store.excluded(NOW) == []
    assert [a.job.job_id for a in store.attempts(kept)] == [7]
    assert [c.name for c in store.forgotten_chains()] == [kept]
    store.add_chain(record(mode=Mode.OBSERVE))
    assert store.put_attempt("llama", attempt(7)).number == 1
    with pytest.raises(UnknownChain):
        store.forget_chain(kept)


def test_a_chain_whose_submission_is_on_its_way_is_not_forgotten(store: Store) -> None:
    store.add_chain(record())
    lease = store.acquire_lease("a:1", MINUTE, NOW)
    intent = store.begin_intent(lease, "llama", IntentKind.SUBMIT, "t1", {}, NOW)
    tried = store.mark_tried(lease, intent, NOW)
    with pytest.raises(IntentOpen):
        store.forget_chain("llama")
    store.close_intent(lease, tried, IntentStatus.DONE, NOW, job_id=9)
    store.forget_chain("llama")


def test_forgetting_a_chain_gives_up_what_was_not_tried_yet(store: Store) -> None:
    store.add_chain(record())
    lease = store.acquire_lease("a:1", MINUTE, NOW)
    intent = store.begin_intent(lease, "llama", IntentKind.SUBMIT, "t1", {}, NOW)
    store.forget_chain("llama")
    with pytest.raises(StoreError, match="forgotten"):
        store.mark_tried(lease, intent, NOW)
    found = store.intent_by_token("t1")
    assert found is not None
    assert found.status is IntentStatus.ABANDONED


def test_chains_come_as_people_count_them(store: Store) -> None:
    for name in ("run-10", "run", "run-2", "run-2b", "8x", "run-02"):
        store.add_chain(record(name))
    assert [c.name for c in store.chains() if c.name != "llama"] == ["8x", "run", "run-02", "run-2", "run-2b", "run-10"]
