"""What Slurm's notices in the log say of an end, and which line shows what Slurm states."""

from __future__ import annotations

from collections.abc import Collection

from chainwatch.diagnosis.choice import Choice, before, choose, first_of, reacts, went_on
from chainwatch.model.job import JobState
from chainwatch.model.verdict import Cause, Evidence, Finding

SLURM_CAUSES = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.CANCELLED_BY_USER, Cause.CANCELLED_BY_OTHER})
NOTICES = frozenset({"slurm/preemption", "slurm/time-limit", "slurm/node-failure", "slurm/job-cancelled"})
_A_NEW_START = 2000
"""Bytes."""


def notice_of_slurm(evidence: Evidence) -> Finding | None:
    """Slurm's own word for a preemption or a time limit, where it is the newest notice in the log."""
    last: Finding | None = None
    for notice in (f for f in evidence.logs.findings if f.signature in NOTICES and not went_on(f)):
        last = notice if last is None or before(last, notice) else last
    return last if last is not None and last.cause in (Cause.PREEMPTION, Cause.TIME_LIMIT) else None


def before_notice(root: Finding, evidence: Evidence) -> bool:
    """Nothing shows that Slurm's notice came first."""
    notices = [f for f in evidence.logs.findings if f.cause in SLURM_CAUSES and f.specificity >= 45 and not went_on(f)]
    return not any(before(notice, root) for notice in notices)


def without_older_attempts(evidence: Evidence, choice: Choice) -> Choice:
    """The choice among what follows Slurm's notice, where that notice ended an earlier attempt in the same file.

    A job that Slurm calls FAILED was not preempted, nor cut off by its limit. Without a state only distance tells: the
    teardown prints little after a notice, a new attempt prints much.
    """
    notice = choice.root
    if notice is None or notice.signature not in NOTICES:
        return choice
    distance = 0 if evidence.job.state is JobState.FAILED else _A_NEW_START
    later = [f for f in evidence.logs.findings if before(notice, f) and f.order - notice.order > distance]
    later = [f for f in later if f.cause is not Cause.COMPLETED and f.signature not in NOTICES]
    later = [f for f in later if not reacts(f) or f.order - notice.order > _A_NEW_START]
    anew = choose(later)
    return choice if anew.root is None or anew.root.effect else anew


def line_for(cause: Cause, evidence: Evidence) -> Finding | None:
    """The line that shows what Slurm states: of that cause if there is one, else the first notice of a signal."""
    own = [f for f in evidence.logs.findings if f.cause is cause and not went_on(f)]
    strong = [f for f in own if not f.effect]
    if not strong and cause in SLURM_CAUSES and (notice := signal_line(evidence)) is not None:
        return notice
    if own:
        strong = strong or own
        top = max(f.specificity for f in strong)
        return first_of(f for f in strong if f.specificity >= top - 8)
    return signal_line(evidence) if cause in SLURM_CAUSES else None


def signal_line(evidence: Evidence, only: Collection[str] = ()) -> Finding | None:
    """The most telling notice of a signal or a cancellation that the program did not survive, as a finding."""
    places = {(line.source, line.offset, line.line) for line in evidence.logs.signalled}
    notices = [
        f
        for f in evidence.logs.findings
        if (f.where.source, f.where.offset, f.where.line) in places
        and not went_on(f)
        and (not only or f.signature in only)
    ]
    return max(notices, key=lambda f: (f.specificity, -f.order)) if notices else None
