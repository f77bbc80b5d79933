from __future__ import annotations

import pytest

from chainwatch.store import IntentClosed, IntentOpen, LeaseLost, Store
from chainwatch.store.records import Intent, IntentKind, IntentStatus, Lease
from tests.store.build import MINUTE, NOW, record


@pytest.fixture
def lease(store: Store) -> Lease:
    store.add_chain(record())
    return store.acquire_lease("here:1", 10 * MINUTE, NOW)


def submit(store: Store, lease: Lease, token: str = "t1", chain: str = "llama") -> Intent:
    return store.begin_intent(lease, chain, IntentKind.SUBMIT, token, {"argv": ["sbatch", "x.sh"]}, NOW)


def test_an_intent_is_open_until_its_outcome_is_known(store: Store, lease: Lease) -> None:
    intent = submit(store, lease)
    assert store.open_intents() == store.open_intents("llama") == [intent]
    assert store.open_intents("other") == []
    tried = store.mark_tried(lease, intent, NOW + MINUTE)
    closed = store.close_intent(lease, tried, IntentStatus.DONE, NOW + 2 * MINUTE, job_id=77, note="accepted")
    assert store.open_intents() == []
    assert store.intent_by_token("t1") == closed
    assert store.intents("llama") == [closed]
    assert (closed.tried_at, closed.closed, closed.job_id) == (NOW + MINUTE, NOW + 2 * MINUTE, 77)
    assert closed.payload == {"argv": ["sbatch", "x.sh"]}
    assert store.intent_by_token("t2") is None


def test_a_chain_has_one_open_submission_at_most(store: Store, lease: Lease) -> None:
    intent = submit(store, lease)
    with pytest.raises(IntentOpen, match="t1"):
        submit(store, lease, "t2")
    store.add_chain(record("other"))
    submit(store, lease, "t3", "other")
    store.begin_intent(lease, "llama", IntentKind.CANCEL, "t4", {}, NOW)
    store.close_intent(lease, intent, IntentStatus.REFUSED, NOW, note="invalid qos")
    submit(store, lease, "t5")


def test_looks_before_the_last_try_say_nothing(store: Store, lease: Lease) -> None:
    tried = store.mark_tried(lease, submit(store, lease), NOW)
    store.note_absent(tried, NOW + MINUTE)
    absent = store.note_absent(tried, NOW + 2 * MINUTE)
    assert (absent.absent_rounds, absent.absent_at) == (2, NOW + 2 * MINUTE)
    again = store.mark_tried(lease, absent, NOW + 3 * MINUTE)
    assert (again.absent_rounds, again.absent_at) == (0, None)


def test_a_closed_intent_is_not_tried_and_not_closed_differently(store: Store, lease: Lease) -> None:
    intent = submit(store, lease)
    store.close_intent(lease, intent, IntentStatus.DONE, NOW, job_id=1)
    assert store.close_intent(lease, intent, IntentStatus.DONE, NOW + MINUTE, job_id=1).closed == NOW
    with pytest.raises(IntentClosed):
        store.close_intent(lease, intent, IntentStatus.DONE, NOW, job_id=2)
    with pytest.raises(IntentClosed):
        store.mark_tried(lease, intent, NOW)
    with pytest.raises(IntentClosed):
        store.note_absent(intent, NOW)


def test_a_lease_that_ran_out_begins_nothing_but_still_writes_down_what_happened(store: Store, lease: Lease) -> None:
    tried = store.mark_tried(lease, submit(store, lease), NOW)
    late = NOW + 10 * MINUTE
    with pytest.raises(LeaseLost, match="ran out"):
        store.begin_intent(lease, "llama", IntentKind.CANCEL, "t2", {}, late)
    with pytest.raises(LeaseLost, match="ran out"):
        store.mark_tried(lease, tried, late)
    assert store.close_intent(lease, tried, IntentStatus.DONE, late, job_id=5).job_id == 5


def test_an_old_lease_object_serves_as_long_as_its_epoch_is_renewed(store: Store, lease: Lease) -> None:
    store.renew_lease(lease, 30 * MINUTE, NOW + 9 * MINUTE)
    store.begin_intent(lease, "llama", IntentKind.CANCEL, "t2", {}, NOW + 20 * MINUTE)


def test_submissions_are_counted_by_when_they_were_tried(store: Store, lease: Lease) -> None:
    intent = submit(store, lease)
    assert store.submissions_since(NOW, typed=True) == 0
    tried = store.mark_tried(lease, intent, NOW + MINUTE)
    store.close_intent(lease, tried, IntentStatus.REFUSED, NOW + MINUTE)
    cancel = store.begin_intent(lease, "llama", IntentKind.CANCEL, "t2", {}, NOW)
    store.mark_tried(lease, cancel, NOW + MINUTE)
    assert store.submissions_since(NOW + MINUTE, typed=False) == 1
    assert store.submissions_since(NOW + 2 * MINUTE, typed=True) == 0
