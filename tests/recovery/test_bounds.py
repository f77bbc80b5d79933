"""Any sequence of ends without saved progress comes to rest within a bound; saved progress always resets it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from chainwatch.model.chain import Rest, Resubmit, Stop, Wait
from chainwatch.model.verdict import Cause
from chainwatch.recovery import decide
from tests.recovery.build import NOW, ended, situation

_CAUSES = st.sampled_from([c for c in Cause if c is not Cause.COMPLETED])
_BOUND = 40


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_CAUSES, st.integers(0, 3)), min_size=_BOUND, max_size=_BOUND))
def test_without_saved_progress_every_chain_comes_to_rest(ends: list[tuple[Cause, int]]) -> None:
    past = []
    for cause, kind in ends:
        past.append(ended(cause, before=10, ago=0, fingerprint=f"{cause}{kind}"))
        current = situation(*past)
        for _ in range(10):
            decision = decide(current)
            if not isinstance(decision, Wait):
                break
            current = replace(current, now=decision.until + timedelta(seconds=1))
        assert not isinstance(decision, Wait), "a wait ends"
        if isinstance(decision, (Rest, Stop)):
            return
    raise AssertionError(f"{_BOUND} ends without saved progress, and it still resubmits")


@settings(max_examples=150, deadline=None)
@given(st.lists(_CAUSES, max_size=12))
def test_saved_progress_resets_every_budget(before: list[Cause]) -> None:
    past = [ended(c, before=10, ago=50) for c in before]
    decision = decide(replace(situation(*past, ended(Cause.PREEMPTION, saved=20, before=10)), now=NOW))
    assert isinstance(decision, Resubmit)
