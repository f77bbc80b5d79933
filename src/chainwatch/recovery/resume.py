"""From which checkpoint the next job resumes.

No damaged one is taken while an intact one exists, and nothing starts from scratch silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from chainwatch.config.models import Chain
from chainwatch.model.chain import FromCheckpoint, FromScratch, History, Resume
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status, unknown_sentence
from chainwatch.model.text import last_part
from chainwatch.recovery.avoid import avoided


@dataclass(frozen=True, slots=True)
class Choice:
    """Resume from here, with what a naive resume would pick instead set aside where the config allows it."""

    resume: Resume
    newer_bad: tuple[Checkpoint, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The answer may change by itself: storage is silent, or somebody still writes."""

    why: str
    writer: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """Checkpoints exist (or existed) and none is intact: a person must look."""

    why: str
    advice: str


def choose(settings: Chain, report: RunReport | None, history: History) -> Choice | NotYet | Nothing:
    """Choose the checkpoint for the next job.

    `report` None means that the storage did not answer: never a reason to start from scratch. Sources: design rule 3 of
    what must never happen.
    """
    where = settings.checkpoints
    if where is None:
        return Choice(FromScratch("no checkpoint directory is configured: the script itself must find its checkpoint"))
    if report is None:
        return NotYet(f"the storage of {where.directory} does not answer")
    avoid = avoided(settings, history, report)
    ordered = sorted(report.checkpoints, key=_order)
    intact = [c for c in ordered if c.intact and c.path not in avoid]
    newest = intact[-1] if intact else None
    newer = [c for c in ordered if newest is None or _order(c) > _order(newest)]
    writing = [c for c in newer if c.status is Status.IN_PROGRESS]
    if writing:
        reason = writing[-1].reason.removeprefix("still being written: ")
        return NotYet(f"{name_of(writing[-1])} is still being written: {reason}", writer=True)
    bad = tuple(c for c in newer if not c.intact or c.path in avoid)
    if newest is not None:
        sentence = f"resumes from {name_of(newest)}"
        if bad:
            sentence += f", not from {name_of(bad[-1])}, which is {_fault(bad[-1])}"
        return Choice(FromCheckpoint(newest), bad, sentence)
    existed = bool(ordered) or any(a.saved_after is not None for a in history.attempts)
    if not existed and report.unknown:
        return _unknown(where.from_scratch == "if_none_intact", report, history.chain)
    if not existed:
        return Choice(
            FromScratch("no checkpoint exists yet"), (), "starts from the beginning: no checkpoint exists yet"
        )
    if where.from_scratch == "if_none_intact":
        why = "no checkpoint is intact, and the configuration allows starting from scratch"
        return Choice(FromScratch(why), bad, f"starts from the beginning: {why}")
    usable = "none that a job should load" if any(c.intact for c in ordered) else "none intact"
    found = f"{len(ordered)} checkpoint{'s' * (len(ordered) != 1)} in {report.path}, {usable}"
    if not ordered:
        saved = max(a.saved_after for a in history.attempts if a.saved_after is not None)
        found = f"step {saved} was saved in {report.path}, and now no checkpoint is there"
    elif bad:
        found += f" (newest: {name_of(bad[-1])}: {_fault(bad[-1]) if bad[-1].intact else bad[-1].reason})"
    return Nothing(
        found,
        f"look at `chainwatch verify {report.path}`; mend or restore one, then `chainwatch retry {history.chain}`. To "
        "start from the beginning set checkpoints.from_scratch: if_none_intact.",
    )


def _unknown(allowed: bool, report: RunReport, chain: str) -> Choice | Nothing:
    """Nothing that is known was saved, but files look like saves: the next job would write over them."""
    found = unknown_sentence(report.path, report.unknown)
    if allowed:
        return Choice(FromScratch(found), (), f"starts from the beginning, as the configuration allows: {found}")
    return Nothing(
        found,
        "describe them with checkpoints.custom, or name checkpoints.format (`chainwatch verify --rule` tries a rule), then "
        f"`chainwatch retry {chain}`. To start from the beginning set checkpoints.from_scratch: if_none_intact.",
    )


def settle_of(settings: Chain) -> timedelta:
    return settings.checkpoints.settle if settings.checkpoints else timedelta(0)


def _order(c: Checkpoint) -> tuple[int, float]:
    return (-1 if c.step is None else c.step, c.modified)


def name_of(c: Checkpoint) -> str:
    """What people call it: the last part of its path, and its step where that does not tell it."""
    name = last_part(c.path)
    return name if c.step is None or str(c.step) in name else f"{name} (step {c.step})"


def _fault(c: Checkpoint) -> str:
    return str(c.status).replace("_", " ") if not c.intact else "intact to the eye, but jobs that loaded it failed"
