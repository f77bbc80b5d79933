from __future__ import annotations

from datetime import timedelta

import pytest

from chainwatch.model.chain import Decision, FromScratch, Hold, LeaveAlone, Release, Resubmit, Wait
from chainwatch.model.verdict import Cause, Evidence, Outcome, Retry, Verdict
from chainwatch.store import AttemptTaken, Store, StoreError
from tests.store.build import MINUTE, NOW, attempt, job, record


@pytest.fixture
def chain(store: Store) -> str:
    store.add_chain(record())
    return "llama"


def test_attempts_are_numbered_in_their_order(store: Store, chain: str) -> None:
    assert [store.put_attempt(chain, attempt(n)).number for n in (5, 9, 2)] == [1, 2, 3]
    assert [a.job.job_id for a in store.attempts(chain)] == [5, 9, 2]
    assert [a.job.job_id for a in store.attempts(chain, last=2)] == [9, 2]
    assert store.attempts("ghost") == ()


def test_a_requeue_opens_a_new_attempt_under_the_same_job_id(store: Store, chain: str) -> None:
    store.put_attempt(chain, attempt(7))
    again = store.put_attempt(chain, attempt(7, submitted=NOW + timedelta(microseconds=1)))
    assert again.number == 2


def test_an_update_keeps_the_number(store: Store, chain: str) -> None:
    first = store.put_attempt(chain, attempt(7))
    store.put_attempt(chain, attempt(8))
    verdict = Verdict(Outcome.FAILED, Cause.STORAGE, Retry.YES, 0.9, "it died")
    judged = store.put_attempt(chain, attempt(7, number=44, verdict=verdict, ended=NOW))
    assert judged.number == first.number == 1
    assert store.attempts(chain)[0] == judged
    assert judged.verdict == verdict


def test_a_number_that_another_job_has_is_refused(store: Store, chain: str) -> None:
    store.put_attempt(chain, attempt(7, number=3))
    with pytest.raises(StoreError, match="attempt 3 of llama is job 7"):
        store.put_attempt(chain, attempt(8, number=3))


def test_one_job_belongs_to_one_chain(store: Store, chain: str) -> None:
    store.add_chain(record("other"))
    store.put_attempt(chain, attempt(7))
    with pytest.raises(AttemptTaken, match="'llama'"):
        store.put_attempt("other", attempt(7))


def test_an_attempt_is_found_by_its_identity(store: Store, chain: str) -> None:
    stored = store.put_attempt(chain, attempt(7))
    assert store.attempt_by_id(stored.job.attempt) == (chain, stored)
    assert store.attempt_by_id(job(7, NOW + MINUTE).attempt) is None


def test_live_attempts_are_those_that_have_not_ended(store: Store, chain: str) -> None:
    store.put_attempt(chain, attempt(7, ended=NOW))
    live = store.put_attempt(chain, attempt(8))
    assert store.live_attempts() == [(chain, live)]


def test_evidence_is_kept_with_its_attempt_and_replaced_by_a_later_judgement(store: Store, chain: str) -> None:
    store.put_attempt(chain, attempt(7))
    assert store.evidence(chain, 1) is None
    for step in (1, 2):
        evidence = Evidence(job(7), first_seen_step=step)
        store.put_evidence(chain, 1, evidence)
        assert store.evidence(chain, 1) == evidence
    with pytest.raises(StoreError, match="no attempt 2"):
        store.put_evidence(chain, 2, evidence)


def test_a_decision_that_only_repeats_the_last_one_is_not_written_again(store: Store, chain: str) -> None:
    wait = Wait(NOW + MINUTE, "storage")
    assert store.add_decision(chain, 1, wait, NOW, "waits\0 for storage")
    assert not store.add_decision(chain, 1, wait, NOW + MINUTE, "waits\0 for storage")
    assert store.add_decision(chain, 2, wait, NOW + MINUTE, "waits\0 for storage"), "another attempt"
    assert store.add_decision(chain, 2, LeaveAlone("lives"), NOW + MINUTE, "lives")
    assert store.add_decision(chain, 2, wait, NOW + 2 * MINUTE, "waits\0 for storage"), "not the last one any more"
    assert [number for _, number, _, _ in store.decisions(chain)] == [1, 2, 2, 2]
    assert [type(d) for _, _, d, _ in store.decisions(chain, last=2)] == [LeaveAlone, Wait]


def test_decisions_of_the_same_shape_come_back_as_their_own_kind(store: Store, chain: str) -> None:
    made: list[Decision] = [
        Hold(job(), "x"),
        Release(job(), "x"),
        Resubmit(FromScratch("no checkpoint exists"), "x", exclude=("n1",)),
    ]
    for decision in made:
        store.add_decision(chain, None, decision, NOW, "x")
    assert [decision for _, _, decision, _ in store.decisions(chain)] == made
