"""From a reading of the evidence to a verdict that people and scripts can use."""

from __future__ import annotations

from dataclasses import dataclass

from chainwatch.diagnosis.causes import CAUSES
from chainwatch.diagnosis.culprits import culprit_nodes
from chainwatch.diagnosis.fingerprint import fingerprint
from chainwatch.diagnosis.slurm_end import SlurmEnd, place_for_logs
from chainwatch.model.job import JobState, Source
from chainwatch.model.verdict import Cause, Evidence, Finding, Line, Outcome, Retry, RuledOut, Verdict


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the evidence, before it is put into words."""

    outcome: Outcome
    cause: Cause
    confidence: float
    root: Finding | None = None
    retry: Retry | None = None
    advice: str = ""
    culprits: tuple[str, ...] = ()
    why: str = ""
    assumed: bool = False
    ruled_out: tuple[RuledOut, ...] = ()


def in_words(evidence: Evidence, end: SlurmEnd, reading: Reading) -> Verdict:
    """The verdict of one reading: its retry and culprits, its sentence, its proof, and what it leaves open."""
    root = reading.root
    words = CAUSES[reading.cause]
    own = root if root is not None and root.cause is reading.cause else None
    retry = reading.retry or (own.retry if own else None) or words.retry
    retry, culprits = _who(evidence, reading, own, retry)
    if own is not None and own.signature == "oom/gpu-driver" and own.startup and evidence.logs.step is None:
        retry = Retry.YES
    advice = reading.advice or (own.advice if own else "") or words.advice
    if reading.cause is Cause.UNKNOWN and not evidence.logs.readable:
        advice = place_for_logs(evidence.logs.no_directory) or advice
    return Verdict(
        outcome=reading.outcome,
        cause=reading.cause,
        retry=retry,
        confidence=round(reading.confidence, 2),
        sentence=_sentence(evidence, end, reading, culprits),
        advice=advice,
        culprit_nodes=culprits,
        root_line=root.where.text if root is not None else None,
        evidence=_proof(evidence, reading),
        ruled_out=_unique(reading.ruled_out, reading.cause),
        fingerprint=fingerprint(
            reading.cause,
            root.where.text if root is not None else end.words,
            root.extracted if root is not None else {},
            evidence.job.nodes,
        ),
        assumed=reading.assumed,
        weaker=_weaker(evidence, reading),
    )


def _who(evidence: Evidence, reading: Reading, own: Finding | None, retry: Retry) -> tuple[Retry, tuple[str, ...]]:
    """Culprit nodes, which are named only where leaving them out would help."""
    if retry is not Retry.YES_EXCLUDE_NODE:
        return retry, ()
    named = culprit_nodes(own, evidence) if own is not None and own.node else ()
    culprits = named or reading.culprits or culprit_nodes(own, evidence)
    return (retry, culprits) if culprits else (Retry.YES, ())


def _sentence(evidence: Evidence, end: SlurmEnd, reading: Reading, culprits: tuple[str, ...]) -> str:
    job = evidence.job
    subject = f"Job {job.shown_id}" if job.shown_id else "The job"
    name = CAUSES[reading.cause].name
    if reading.outcome is Outcome.DONE:
        assumed = ", which is only assumed: no proof is configured" if reading.assumed else ""
        return f"{subject} is done: {reading.why or 'it completed'}{assumed}."
    where = f" on {', '.join(culprits)}" if culprits else ""
    line = ""
    if reading.root is not None and reading.root.cause is reading.cause:
        text = " ".join(reading.root.where.text.split())
        line = f": {text if len(text) <= 160 else text[:157] + '…'}"
    said = reading.why or end.words
    if said.startswith(name) and not where:
        return f"{subject} ended: {said}{line}"
    return f"{subject} ended: {name}{where} ({said}){line}"


def _proof(evidence: Evidence, reading: Reading) -> tuple[Line, ...]:
    """The root line, Slurm's words, and a few lines that support or surround it."""
    job = evidence.job
    lines: list[Line] = []
    if reading.root is not None:
        lines.append(reading.root.where)
    state = f"State={job.raw_state or job.state.value}" if job.state is not JobState.UNKNOWN or job.raw_state else ""
    facts = [
        state,
        f"ExitCode={job.exit}" if job.exit is not None else "",
        f"DerivedExitCode={job.derived_exit}" if job.derived_exit is not None and not job.derived_exit.ok else "",
        f"Reason={job.reason}" if job.reason and job.reason != "None" else "",
        f"PreemptTime={job.preempted_at:%Y-%m-%dT%H:%M:%SZ}" if job.preempted_at else "",
    ]
    if any(facts):
        lines.append(Line(job.source.value, None, " ".join(fact for fact in facts if fact)))
    same = [f for f in evidence.logs.findings if f.cause is reading.cause and f is not reading.root]
    lines += [f.where for f in sorted(same, key=lambda f: -f.specificity)[:3]]
    lines += list(evidence.completion.proving[:3]) if reading.outcome is Outcome.DONE else []
    if reading.root is None:
        lines += list(evidence.logs.tail[-3:])
    return tuple(dict.fromkeys(lines))


def _unique(ruled: tuple[RuledOut, ...], cause: Cause) -> tuple[RuledOut, ...]:
    """One line a cause, and none for the cause that was found."""
    by_cause: dict[Cause, RuledOut] = {}
    for item in ruled:
        if item.cause is not cause:
            by_cause.setdefault(item.cause, item)
    return tuple(by_cause.values())


def _weaker(evidence: Evidence, reading: Reading) -> tuple[str, ...]:
    logs = evidence.logs
    missing: list[str] = []
    if not logs.readable:
        gone = f"; {' and '.join(logs.no_directory)} does not exist" if logs.no_directory else ""
        missing.append(f"no log could be read ({logs.problem}{gone}), so only Slurm's facts count")
    elif logs.problem:
        missing.append(f"some logs could not be read: {logs.problem}")
    elif logs.files and not logs.tail:
        missing.append("the log is empty, so only Slurm's facts count")
    if logs.unread and reading.confidence < 0.6:
        missing.append(f"{logs.unread >> 20} MiB in the middle of the logs were not read")
    if evidence.sources and Source.ACCOUNTING not in evidence.sources:
        missing.append("accounting did not answer, so step states are not known")
    if (
        reading.cause in (Cause.HARDWARE_NODE, Cause.HARDWARE_GPU)
        and evidence.sources
        and Source.NODES not in evidence.sources
    ):
        missing.append("sinfo did not answer, so the state of the nodes is not known")
    return tuple(missing)
