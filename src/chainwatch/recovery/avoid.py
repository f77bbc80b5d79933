"""Checkpoints that the next job keeps away from though they look intact. Pure.

Told from the past alone, so that whoever asks hears the same, also after a restart: the decision, the resume file, the
pointer, and the job's own `chainwatch latest`. A checkpoint that was written anew since is as good as any.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from chainwatch.config.models import Chain, Recovery
from chainwatch.model.chain import Attempt, History
from chainwatch.model.checkpoint import Checkpoint, RunReport
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.recovery import budget
from chainwatch.recovery.retry import over_before

_NOT_OF_A_CHECKPOINT = frozenset(
    {
        Cause.HARDWARE_GPU,
        Cause.HARDWARE_NODE,
        Cause.NETWORK_FABRIC,
        Cause.STORAGE,
        Cause.RENDEZVOUS,
        Cause.TRANSIENT_SERVICE,
        Cause.CHECKPOINT_CORRUPT,
        Cause.NUMERIC,
    }
)
"""Failures that no other checkpoint helps against, or that have a rule of their own."""
_STEP = re.compile(r"(?i)\b(?:global[ _]?)?(?:step|iter(?:ation)?)s?\b\W{0,3}(\d{1,12})\b")


def avoided(settings: Chain, history: History, report: RunReport | None) -> frozenset[str]:
    """Paths of the checkpoints that are not to be loaded. Without a report nothing is known to be written anew."""
    written = {c.path: c.modified for c in report.checkpoints} if report is not None else {}
    return frozenset(
        path
        for path, since in _condemned(settings, history, report)
        if written.get(path, 0.0) <= (since.timestamp() if since else float("inf"))
    )


def may_condemn(settings: Chain, history: History) -> bool:
    """Something of the past may speak against a checkpoint, so that it is worth a look at what lies there."""
    causes = {a.verdict.cause for a in history.attempts if a.verdict is not None}
    return bool(causes & {Cause.CHECKPOINT_CORRUPT, Cause.NUMERIC}) or bool(avoided(settings, history, None))


def _condemned(settings: Chain, history: History, report: RunReport | None) -> Iterator[tuple[str, datetime | None]]:
    """Each with the end of the job that speaks against it."""
    for attempt in budget.judged(history.attempts):
        assert attempt.verdict is not None
        cause = attempt.verdict.cause
        if cause is Cause.CHECKPOINT_CORRUPT and attempt.resumed_from is not None:
            yield attempt.resumed_from, attempt.ended
        if cause is Cause.NUMERIC and (settings.recovery.numeric_rollback or over_before(attempt, history.retried_at)):
            yield from ((path, attempt.ended) for path in diverged(attempt, report))
    if (last := crashed_every_job(settings.recovery, history)) is not None and last.resumed_from is not None:
        yield last.resumed_from, last.ended


def diverged(attempt: Attempt, report: RunReport | None) -> frozenset[str]:
    """What an attempt that ended of NaN leaves that does not surely predate it: what it saved from that step on, and,
    where it saved nothing new, the checkpoint that it began from: the same data gave the same NaN."""
    found: set[str] = set()
    at = diverged_at(attempt)
    for c in report.checkpoints if report is not None else ():
        if c.step is None:
            continue
        poisoned = at is not None and c.step >= at
        began_from = not attempt.saved_progress and c.step == attempt.saved_before
        if poisoned or began_from:
            found.add(c.path)
    if not attempt.saved_progress and attempt.resumed_from is not None:
        found.add(attempt.resumed_from)
    return frozenset(found)


def diverged_at(attempt: Attempt) -> int | None:
    """The training step at which it ended of NaN, where the line that proves it tells one that can be this run's: steps of
    an epoch are counted anew, and are small."""
    line = attempt.verdict.root_line if attempt.verdict is not None else None
    told = _STEP.search(line) if line else None
    if told is None:
        return None
    step = int(told[1])
    return step if step >= (attempt.saved_before or 0) else None


def predating(attempt: Attempt, report: RunReport | None) -> Checkpoint | None:
    """The newest intact checkpoint from before an attempt's divergence, None where there is none."""
    bad = diverged(attempt, report)
    known = report.checkpoints if report is not None else ()
    intact = [c for c in known if c.intact and c.path not in bad]
    return max(intact, key=lambda c: (-1 if c.step is None else c.step, c.modified), default=None)


def crashed_every_job(policy: Recovery, history: History) -> Attempt | None:
    """The attempt with which it became clear that a checkpoint loads and then crashes each job in the same way: as often
    as one failure is retried, or twice within the first minutes. One checkpoint only since progress was last saved."""
    alike: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in budget.window(history):
        verdict = attempt.verdict
        assert verdict is not None
        if attempt.resumed_from is None or attempt.saved_progress or not verdict.fingerprint:
            continue
        if verdict.outcome is not Outcome.FAILED or verdict.cause in _NOT_OF_A_CHECKPOINT:
            continue
        same = alike[attempt.resumed_from, verdict.fingerprint]
        same.append(attempt)
        if len(same) > policy.retries_per_failure or budget.quick_twice(policy, same):
            return attempt
    return None
