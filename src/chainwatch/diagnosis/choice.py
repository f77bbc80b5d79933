"""Which suspicious line is the cause: specificity first, then time; effects only where there is nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chainwatch.model.verdict import Cause, Finding

NEAR = 8
"""Two lines whose specificity differs by no more say about as much: the earlier one is the cause."""
SURVIVED = 3
"""So many newer training steps below a line mean that the program went on after it."""
SURVIVED_NOTICE = 12
"""Slurm's notice and the program's last steps overtake each other, so a notice needs more steps to be an old one."""
_WELL_NEAR = 20
_REACTIVE = frozenset({Cause.NETWORK_FABRIC, Cause.HANG, Cause.RENDEZVOUS})
_REACTIVE_BELOW = 80
_AN_ECHO = 18
"""Effects from this specificity on tell that something failed: aborts of NCCL, lost peers, a dead store."""
_SLURM_SPEAKS = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.CANCELLED_BY_USER, Cause.CANCELLED_BY_OTHER})


@dataclass(frozen=True, slots=True)
class SetAside:
    """A line that is not the cause, and why."""

    finding: Finding
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The root among the findings, and what was set aside."""

    root: Finding | None
    aside: tuple[SetAside, ...] = ()


def went_on(finding: Finding) -> bool:
    """The program went on training after this line."""
    notice = finding.cause in _SLURM_SPEAKS
    return finding.survived >= (SURVIVED_NOTICE if notice else SURVIVED)


def reacts(finding: Finding) -> bool:
    """What the other ranks print when one rank dies or is stopped."""
    return finding.cause in _REACTIVE and finding.specificity < _REACTIVE_BELOW


def before(first: Finding, second: Finding) -> bool:
    """`first` was printed earlier: by time stamps where both have one, else by place, which counts in one file only."""
    if first.where.source != second.where.source:
        return first.at is not None and second.at is not None and first.at < second.at
    return first.order < second.order


def choose(findings: Sequence[Finding]) -> Choice:
    """The cause among findings of failures (no completion texts)."""
    aside = [SetAside(f, "the training went on after it") for f in findings if went_on(f) and not f.effect]
    alive = [f for f in findings if not went_on(f)]
    causes = [f for f in alive if not f.effect]
    for finding in [f for f in causes if f.survivable]:
        if finding.survived:
            causes.remove(finding)
            aside.append(SetAside(finding, "the training went on after it"))
            continue
        later = next((f for f in alive if _ended_it(f) and f.cause is not finding.cause and before(finding, f)), None)
        if later is not None:
            causes.remove(finding)
            aside.append(SetAside(finding, f"it went on after it, until `{_short(later)}`"))
    for finding in [f for f in causes if f.well]:
        later = next((f for f in causes if _says_about_as_much(f, finding) and before(finding, f)), None)
        if later is not None:
            causes.remove(finding)
            aside.append(SetAside(finding, f"something went well after it, until `{_short(later)}`"))
    reactive = [f for f in causes if reacts(f)]
    for finding in reactive:
        trigger = next((f for f in causes if _could_trigger(f) and before(f, finding)), None)
        if trigger is not None:
            causes.remove(finding)
            aside.append(
                SetAside(finding, f"it follows `{_short(trigger)}`, and other ranks print such when one fails")
            )
    if causes:
        top = max(f.specificity for f in causes)
        near = [f for f in causes if f.specificity >= top - NEAR]
        root = first_of(near)
        aside += [SetAside(f, _why_not(f, root)) for f in causes if f is not root and f.cause is not root.cause]
        aside += [
            SetAside(f, "it is an effect: exit codes, signals and aborts follow when one process fails")
            for f in _strong_effects(alive)
        ]
        return Choice(root, tuple(aside))
    effects = [f for f in alive if f.specificity > 0 and f.effect]
    if not effects:
        return Choice(None, tuple(aside))
    top = max(f.specificity for f in effects)
    return Choice(first_of([f for f in effects if f.specificity >= top - 1]), tuple(aside))


def first_of(findings: Iterable[Finding]) -> Finding:
    """The earliest: place decides in one file, time stamps between files where all have one."""
    found = list(findings)
    if len({f.where.source for f in found}) > 1 and all(f.at is not None for f in found):
        return min(found, key=lambda f: (f.at.timestamp() if f.at else 0.0, f.order))
    return min(found, key=lambda f: f.order)


def _could_trigger(finding: Finding) -> bool:
    return finding.cause not in _REACTIVE | _SLURM_SPEAKS and finding.specificity >= 30


def _says_about_as_much(later: Finding, finding: Finding) -> bool:
    """It can be the end of a program that got over `finding`; a named fault is not outweighed by any exception."""
    return (
        not later.well
        and _could_trigger(later)
        and later.cause is not finding.cause
        and later.specificity >= finding.specificity - _WELL_NEAR
    )


def _ended_it(finding: Finding) -> bool:
    """A failure that a program does not survive, or an echo that tells of one."""
    return not finding.survivable and finding.specificity >= (_AN_ECHO if finding.effect else 30)


def _strong_effects(findings: Sequence[Finding]) -> list[Finding]:
    """One effect for each cause that it suggests: the most telling, of several the first."""
    best: dict[Cause, Finding] = {}
    for finding in findings:
        least = 3 if finding.cause is Cause.UNKNOWN else 18
        known = best.get(finding.cause)
        if finding.effect and finding.specificity >= least and (not known or finding.specificity > known.specificity):
            best[finding.cause] = finding
    return list(best.values())


def _why_not(finding: Finding, root: Finding) -> str:
    if finding.specificity < root.specificity - NEAR:
        return f"`{_short(root)}` says more"
    return f"`{_short(root)}` came first"


def _short(finding: Finding) -> str:
    text = " ".join(finding.where.text.split())
    return text if len(text) <= 90 else f"{text[:87]}…"
