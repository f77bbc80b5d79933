"""Is the chain done? Judged from measured facts by the rules that the configuration names, in three values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from chainwatch.model.verdict import Completion, Proof, RuleFact


def judge_completion(facts: Sequence[RuleFact], mode: Literal["all", "any"] = "all") -> Completion:
    """Combine the facts: `all` must hold, or `any`. Without rules nothing is configured and nothing is known.

    Unknown is contagious only as far as it matters: one rule that surely fails refutes `all`, one that surely holds
    proves `any`, whatever could not be looked at.
    """
    if not facts:
        return Completion(Proof.UNKNOWN)
    proofs = [fact.proof for fact in facts]
    deciding = Proof.NO if mode == "all" else Proof.YES
    if deciding in proofs:
        proof = deciding
    elif Proof.UNKNOWN in proofs:
        proof = Proof.UNKNOWN
    else:
        proof = Proof.YES if mode == "all" else Proof.NO
    return Completion(
        proof=proof,
        rules=tuple(fact.sentence() for fact in facts),
        proving=tuple(line for fact in facts if fact.proof is Proof.YES for line in fact.lines),
        contradicting=tuple(fact.sentence() for fact in facts if fact.proof is Proof.NO),
        configured=True,
    )
