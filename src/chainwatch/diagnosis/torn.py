"""Which earlier attempt tore a checkpoint: timestamps of files, of PreemptTime and of ends, side by side. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Checkpoint, RunReport
from chainwatch.model.text import last_part
from chainwatch.model.verdict import Cause, Evidence, Line, Verdict

AFTER = timedelta(minutes=2)
"""A killed writer's last blocks reach a network file system up to this long after the end."""
BEFORE = timedelta(minutes=5)
"""A save that the end cut had written within this long before: an older one was not cut by it."""
_SIGNALS = 2
"""So many of the earlier attempt's lines about a signal stand beside the times."""

Remembered = Callable[[Attempt], Evidence | None]
"""What was known of an earlier attempt when it was judged."""


def torn_by(
    report: RunReport | None,
    resumed_from: str | None,
    earlier: Sequence[Attempt],
    remembered: Remembered = lambda attempt: None,
) -> tuple[str, tuple[Line, ...]] | None:
    """The attempt whose end fell into the save of the checkpoint that could not be loaded: a clause, and the evidence
    side by side: the file's last write, PreemptTime, the end, and what its log says of a signal.

    The checkpoint is the one that the job is known to have loaded, otherwise the newest that is not intact.
    """
    bad = _bad(report, resumed_from)
    if bad is None or not bad.modified:
        return None
    written = datetime.fromtimestamp(bad.modified, UTC)
    for attempt in reversed(earlier):
        start, end = attempt.job.start, attempt.ended
        when = attempt.job.preempted_at
        if start is None or end is None:
            continue
        pushed_at = min(when, end) if when else end
        if not max(start, pushed_at - BEFORE) <= written <= end + AFTER:
            continue
        name = last_part(bad.path)
        pushed = f"was preempted at {when:%H:%M:%S}" if when else f"ended at {end:%H:%M:%S}"
        clause = f"{name} was torn by attempt {attempt.number} (job {attempt.job.shown_id}), which {pushed} UTC"
        side = f"last write {written:%Y-%m-%d %H:%M:%S} UTC"
        if when:
            side += f"; PreemptTime {when:%Y-%m-%d %H:%M:%S} UTC"
        side += f"; end of job {attempt.job.shown_id} {end:%Y-%m-%d %H:%M:%S} UTC"
        known = remembered(attempt)
        if known is not None and any(record.saving for record in known.end_records):
            side += "; `chainwatch exec` saw a save under way when the signal came"
        return clause, (Line(bad.path, None, side), *(known.logs.signalled[:_SIGNALS] if known is not None else ()))
    return None


def told_apart(
    verdict: Verdict,
    evidence: Evidence,
    earlier: Callable[[], Sequence[Attempt]],
    remembered: Remembered = lambda attempt: None,
) -> Verdict:
    """The verdict on a job that died of its checkpoint, with the attempt that tore it, where that is known. Nothing of the
    past is asked for where the verdict is another one."""
    if verdict.cause is not Cause.CHECKPOINT_CORRUPT:
        return verdict
    torn = torn_by(evidence.checkpoints, evidence.resumed_from, earlier(), remembered)
    if torn is None:
        return verdict
    sentence = f"{verdict.sentence.rstrip('.')}; {torn[0]}"
    return replace(verdict, sentence=sentence, evidence=(*verdict.evidence, *torn[1]))


def _bad(report: RunReport | None, resumed_from: str | None) -> Checkpoint | None:
    if report is None:
        return None
    for checkpoint in report.checkpoints:
        if resumed_from is not None and checkpoint.path.rstrip("/") == resumed_from.rstrip("/"):
            return checkpoint
    return next((c for c in reversed(report.checkpoints) if not c.intact), None)
