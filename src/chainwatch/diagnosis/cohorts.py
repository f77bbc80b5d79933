"""One mistake that ends the chains of one template or script alike: a cohort, mended once and not once a chain. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from chainwatch.diagnosis.incidents import OF_THE_CLUSTER
from chainwatch.model.chain import Attempt
from chainwatch.model.text import some
from chainwatch.model.verdict import Cause, Outcome, Verdict

AT_LEAST = 3
_NEVER = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.COMPLETED}) | OF_THE_CLUSTER
_SLACK = timedelta(minutes=5)
"""An end is seen a poll or two late, and the same failure does not come at the same second."""

Failure: TypeAlias = tuple[str, str]
"""A template (or script), and the fingerprint of a failure."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Chains of one template or script that failed with the same root line."""

    template: str
    fingerprint: str
    line: str
    """The root line, as the first of the chains told it."""
    chains: tuple[str, ...]

    @property
    def key(self) -> str:
        """Of its notice: the same however the cohort grows, and whatever numbers stand in the line."""
        return f"cohort:{self.template}:{self.fingerprint}"

    def sentence(self) -> str:
        """What is to be said of it."""
        return f"{len(self.chains)} chains of {self.template} failed in the same way ({some(self.chains)})"


def counts(verdict: Verdict) -> bool:
    """Whether this end may be a cohort's: a failure that a line tells, and that no cluster is behind."""
    told = verdict.outcome is Outcome.FAILED and verdict.root_line is not None and bool(verdict.fingerprint)
    return told and verdict.cause not in _NEVER


def may_be_one(verdict: Verdict, siblings: int) -> bool:
    """Whether it is worth a poll to see whether the siblings fail alike: `siblings` chains share its template or script,
    itself counted."""
    return siblings >= AT_LEAST and counts(verdict)


def not_outlived(attempts: Sequence[Attempt], now: datetime) -> Attempt | None:
    """The last judged attempt, unless the chain's next job has run for longer already than it took that one to fail."""
    last = next((a for a in reversed(attempts) if a.verdict is not None), None)
    if last is None or attempts[-1] is last:
        return last
    began = attempts[-1].job.start
    if began is None:
        return last
    took = last.ended - last.job.start if last.ended is not None and last.job.start is not None else None
    return last if took is not None and now - began <= took + _SLACK else None


def find_cohorts(last: Mapping[str, tuple[str, Attempt]]) -> dict[Failure, Cohort]:
    """Where three chains of one template failed the same way last: `last` maps each chain to its template and to the end
    that counts."""
    seen: dict[Failure, list[tuple[str, Verdict]]] = defaultdict(list)
    for chain, (template, attempt) in last.items():
        if attempt.verdict is not None and counts(attempt.verdict):
            seen[template, attempt.verdict.fingerprint].append((chain, attempt.verdict))
    return {
        failure: Cohort(*failure, found[0][1].root_line or found[0][1].sentence, tuple(chain for chain, _ in found))
        for failure, found in seen.items()
        if len(found) >= AT_LEAST
    }


def part_of(cohorts: Mapping[Failure, Cohort], template: str, attempts: Sequence[Attempt]) -> Cohort | None:
    """The cohort of which a chain's last end is one; None where it ended of something else."""
    last = next((a.verdict for a in reversed(attempts) if a.verdict is not None), None)
    return cohorts.get((template, last.fingerprint)) if last is not None and counts(last) else None
