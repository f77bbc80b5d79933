"""Any sequence of ends without saved progress comes to rest within a bound; saved progress always resets it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chainwatch.model.chain import Rest, Resubmit, Stop, Wait
from chainwatch.model.verdict import Cause
from chainwatch.recovery import decide
from tests.recovery.build import NOW, checkpoint, ended, report, situation

_CAUSES = st.sampled_from([c for c in Cause if c is not Cause.COMPLETED])
_LOADED = ("/run/global_step10", "/run/global_step9", "/run/global_step8")
_BOUND = 32
"""20 preemptions, 3 failovers, 3 damaged checkpoints, and the ends that exceed each."""
_FEW = st.lists(_CAUSES, min_size=1, max_size=3, unique=True)
"""Of all causes together some budget is soon used up; what rests only by its own budget is seen where it is nearly alone."""


@st.composite
def _fruitless(draw: st.DrawFn) -> list[tuple[Cause, int, str, int]]:
    """Ends without saved progress: of a few causes, of ever new or ever the same failures, at any checkpoint."""
    few, kinds = draw(_FEW), draw(st.sampled_from([1, 4, 1000]))
    one = st.tuples(
        st.sampled_from(few), st.integers(0, kinds), st.sampled_from(_LOADED), st.sampled_from([2, 60])
    )  # fmt: skip
    return draw(st.lists(one, min_size=_BOUND, max_size=_BOUND))


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(_fruitless())
def test_without_saved_progress_every_chain_comes_to_rest(ends: list[tuple[Cause, int, str, int]]) -> None:
    past = []
    for cause, kind, loaded, minutes in ends:
        past.append(ended(cause, before=10, fingerprint=f"{cause}{kind}", resumed=loaded, minutes=minutes))
        current = situation(*past, found=report(*(checkpoint(step) for step in range(1, 11))))
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
