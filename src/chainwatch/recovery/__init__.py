"""Verdict, history and policy to decision: pure functions."""

from chainwatch.recovery.ahead import decide_ahead
from chainwatch.recovery.budget import fruitless_preemptions
from chainwatch.recovery.decide import Situation, decide
from chainwatch.recovery.nodes import blamed, for_chain, shared
from chainwatch.recovery.pending import needs_person
from chainwatch.recovery.retry import over_before

__all__ = [
    "Situation",
    "blamed",
    "decide",
    "decide_ahead",
    "for_chain",
    "fruitless_preemptions",
    "needs_person",
    "over_before",
    "shared",
]
