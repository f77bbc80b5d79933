"""Why an attempt ended: evidence in, verdict out. A pure function.

The order of belief: proof that the run is done; what Slurm states as a fact about the end (a node failed, it was
preempted); the most specific line of the log that the program did not survive; what Slurm's codes suggest; effects.
"""

from __future__ import annotations

from dataclasses import dataclass

from chainwatch.diagnosis.causes import CAUSES
from chainwatch.diagnosis.choice import Choice, before, choose, first_of, went_on
from chainwatch.diagnosis.culprits import culprit_nodes
from chainwatch.diagnosis.fingerprint import fingerprint
from chainwatch.diagnosis.slurm_end import SlurmEnd, read_slurm
from chainwatch.model.job import JobState, Source
from chainwatch.model.verdict import (
    Cause,
    Evidence,
    Finding,
    Line,
    Outcome,
    Proof,
    Retry,
    RuledOut,
    Verdict,
)

_OVERRULES_TIMEOUT = 50
_OVERRULES_CANCEL = 58
_FAILS_A_CLEAN_EXIT = 60
_TEXT_AGAINST_FACT = 80
"""Specificity that a completion text needs against a preemption or a node failure."""
_SLURM_CAUSES = frozenset({Cause.PREEMPTION, Cause.TIME_LIMIT, Cause.CANCELLED_BY_USER, Cause.CANCELLED_BY_OTHER})


@dataclass(frozen=True, slots=True)
class _Reading:
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


def diagnose(evidence: Evidence) -> Verdict:
    """Why this attempt ended, whether the unchanged job would help, and what was ruled out."""
    end = read_slurm(evidence)
    failures = [f for f in evidence.logs.findings if f.cause is not Cause.COMPLETED]
    choice = choose(failures)
    reading = (
        _proven_done(evidence, end, choice)
        or _slurm_states_it(evidence, end, choice)
        or _completed_text(evidence, end, choice)
        or _clean_exit(evidence, end, choice)
        or _stopped_from_outside(evidence, end, choice)
        or _from_the_log(evidence, end, choice)
    )
    return _in_words(evidence, end, choice, reading)


def _proven_done(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading | None:
    """Completion evidence beats exit codes, states and whatever the teardown printed."""
    if evidence.completion.proof is not Proof.YES:
        return None
    ruled = []
    if not end.clean:
        ruled.append(RuledOut(end.cause or Cause.UNKNOWN, f"{end.words}, but the run is proven done"))
    root = _last_completion(evidence)
    return _Reading(
        Outcome.DONE, Cause.COMPLETED, 0.98, root, Retry.NO, why="its completion is proven", ruled_out=tuple(ruled)
    )


def _slurm_states_it(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading | None:
    """Facts that no log line can talk away: a preemption, a dead node, a person's hold, our own scancel."""
    if end.cause is None or end.weight < 93 or _completion_text(evidence, end, _TEXT_AGAINST_FACT) is not None:
        return None
    root = _line_for(end.cause, evidence)
    named = choice.root
    if (
        end.cause is Cause.HARDWARE_NODE
        and named is not None
        and named.cause in (Cause.HARDWARE_GPU, Cause.HARDWARE_NODE)
        and named.specificity >= 90
    ):
        return _Reading(end.outcome, named.cause, 0.95, named, named.retry, culprits=end.culprits)
    return _Reading(
        end.outcome, end.cause, 0.97, root, end.retry, end.advice, end.culprits, ruled_out=_against(end, choice)
    )


def _completed_text(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading | None:
    """The program said that it finished, and only its teardown or Slurm's flag says otherwise."""
    text = _completion_text(evidence, end, 0)
    if text is None:
        return None
    if end.clean and not evidence.completion.configured:
        return _Reading(
            Outcome.DONE, Cause.COMPLETED, 0.95, text, Retry.NO, assumed=True, why="it said that it finished"
        )
    ruled = list(_against(end, choice)) if end.cause else []
    if choice.root is not None and choice.root.cause is not Cause.UNKNOWN and not choice.root.effect:
        ruled.append(
            RuledOut(choice.root.cause, f"`{choice.root.where.text.strip()[:90]}` does not undo the completion text")
        )
    return _Reading(
        Outcome.ENDED,
        Cause.COMPLETED,
        0.8 if end.outcome in (Outcome.FAILED, Outcome.DONE, Outcome.UNKNOWN) else 0.65,
        text,
        Retry.NO,
        advice="The log says that it finished, which is no proof. Look, then say `chainwatch done` or `retry`.",
        why=f"the program said that it finished; {end.words}",
        ruled_out=tuple(ruled),
    )


def _clean_exit(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading | None:
    """COMPLETED 0:0, every step 0:0, no preemption: done if nothing speaks against it, and then only assumed."""
    if not end.clean:
        return None
    root = choice.root
    if root is not None and not root.effect and not went_on(root):
        if root.cause in _SLURM_CAUSES:
            outcome = Outcome.PREEMPTED if root.cause is Cause.PREEMPTION else Outcome.ENDED
            return _Reading(outcome, root.cause, 0.75, root, root.retry, why="it stopped in time and exited 0")
        if root.specificity >= _FAILS_A_CLEAN_EXIT or (root.specificity >= 36 and _near_the_end(root, evidence)):
            return _Reading(
                Outcome.FAILED,
                root.cause,
                min(0.85, root.specificity / 100),
                root,
                root.retry,
                why="Slurm recorded COMPLETED 0:0, so the script hides the exit code of its program",
            )
    if evidence.completion.configured:
        if evidence.completion.proof is Proof.NO:
            told = _signal_line(evidence)
            why = "it exited 0 before its end, as far as the configured proof says"
            cause = Cause.PREEMPTION if told else Cause.UNKNOWN
            return _Reading(Outcome.ENDED, cause, 0.6, told, Retry.YES, why=why)
        return _Reading(
            Outcome.ENDED,
            Cause.UNKNOWN,
            0.4,
            None,
            Retry.WAIT,
            why="it exited 0, and its proof of completion could not be read",
            advice="The proof of completion could not be read. Make it readable, or say `chainwatch done` or `retry`.",
        )
    if (told := _signal_line(evidence)) is not None:
        return _Reading(
            Outcome.ENDED,
            Cause.PREEMPTION,
            0.5,
            told,
            Retry.YES,
            why="it exited 0 after a signal from outside, so it is not done",
        )
    return _Reading(
        Outcome.DONE,
        Cause.COMPLETED,
        0.7 if evidence.logs.readable else 0.55,
        None,
        Retry.NO,
        assumed=True,
        why="it exited 0",
    )


def _stopped_from_outside(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading | None:
    """Time limit, scancel, out of memory: unless the program had failed before, and only its remains were stopped."""
    if end.cause not in {*_SLURM_CAUSES, Cause.OOM_HOST, Cause.HARDWARE_NODE, Cause.USER_CONFIG} or end.weight < 50:
        return None
    own = choose([f for f in evidence.logs.findings if f.cause not in {*_SLURM_CAUSES, Cause.COMPLETED}])
    root = own.root
    limit = {
        Cause.TIME_LIMIT: _OVERRULES_TIMEOUT,
        Cause.OOM_HOST: 93,
    }.get(end.cause, _OVERRULES_CANCEL if end.cause in _SLURM_CAUSES else end.weight)
    if root is not None and root.cause not in _SLURM_CAUSES and root.cause is not end.cause:
        hung = root.cause is Cause.HANG and end.cause in _SLURM_CAUSES and root.specificity >= 40
        if (root.specificity >= limit or hung) and not root.effect and _before_notice(root, evidence):
            ruled = RuledOut(
                end.cause, f"{end.words}, but the program had failed before: only its remains were stopped"
            )
            return _Reading(
                end.outcome,
                root.cause,
                min(0.9, root.specificity / 100),
                root,
                root.retry,
                ruled_out=(ruled, *_aside(own)),
                why=f"it had failed before it {'was cancelled' if end.outcome is Outcome.CANCELLED else 'was stopped'}",
            )
    line = _line_for(end.cause, evidence)
    return _Reading(
        end.outcome,
        end.cause,
        0.93 if end.weight >= 75 else 0.85,
        line,
        end.retry,
        end.advice,
        end.culprits,
        ruled_out=_against(end, choice),
    )


def _from_the_log(evidence: Evidence, end: SlurmEnd, choice: Choice) -> _Reading:
    """FAILED and the like: the most specific line that the program did not survive; then what the codes suggest."""
    root = choice.root
    outcome = end.outcome if end.outcome is not Outcome.DONE else Outcome.FAILED
    if end.cause is not None and (root is None or root.specificity < end.weight):
        line = _line_for(end.cause, evidence) or root
        return _Reading(
            outcome,
            end.cause,
            0.5 if end.weight < 60 else 0.8,
            line,
            end.retry,
            end.advice,
            end.culprits,
            ruled_out=_against(end, choice),
        )
    if root is None:
        cause = Cause.UNKNOWN
        signalled = _signal_line(evidence)
        return _Reading(outcome, cause, 0.2, signalled, end.retry, end.advice or "")
    if root.effect:
        confidence = 0.45 if root.specificity >= 20 else 0.3
        signal = _line_for(Cause.TIME_LIMIT, evidence) if end.requeued else None
        return _Reading(
            outcome, root.cause, confidence, signal or root, end.retry or root.retry, ruled_out=_aside(choice)
        )
    return _Reading(
        _outcome_of(root.cause, outcome),
        root.cause,
        max(0.35, min(0.96, root.specificity / 100 + 0.03)),
        root,
        end.retry or root.retry,
        end.advice,
        ruled_out=_aside(choice),
    )


def _outcome_of(cause: Cause, outcome: Outcome) -> Outcome:
    """The outcome that a cause found in the log means, where Slurm's word was vague."""
    vague = {Outcome.UNKNOWN, Outcome.FAILED, Outcome.ENDED}
    if outcome not in vague:
        return outcome
    if cause in _OUTCOMES:
        return _OUTCOMES[cause]
    return Outcome.FAILED if outcome is Outcome.UNKNOWN else outcome


_OUTCOMES = {
    Cause.PREEMPTION: Outcome.PREEMPTED,
    Cause.TIME_LIMIT: Outcome.TIMED_OUT,
    Cause.CANCELLED_BY_USER: Outcome.CANCELLED,
    Cause.CANCELLED_BY_OTHER: Outcome.CANCELLED,
}


def _completion_text(evidence: Evidence, end: SlurmEnd, least: int) -> Finding | None:
    """The last completion text that training did not continue after; none where a configured proof says no."""
    if evidence.completion.configured and evidence.completion.proof is Proof.NO:
        return None
    if end.outcome in (Outcome.PREEMPTED, Outcome.NODE_FAILED, Outcome.HUNG):
        least = max(least, _TEXT_AGAINST_FACT)
    text = _last_completion(evidence)
    return text if text is not None and text.specificity >= least else None


def _last_completion(evidence: Evidence) -> Finding | None:
    texts = [f for f in evidence.logs.findings if f.cause is Cause.COMPLETED and not f.effect and not went_on(f)]
    if not texts:
        return None
    top = max(f.specificity for f in texts)
    return max((f for f in texts if f.specificity >= top - 15), key=lambda f: (f.specificity >= top, f.order))


def _line_for(cause: Cause, evidence: Evidence) -> Finding | None:
    """The line that shows what Slurm states: of that cause if there is one, else the first notice of a signal."""
    own = [f for f in evidence.logs.findings if f.cause is cause and not went_on(f)]
    if own:
        strong = [f for f in own if not f.effect] or own
        top = max(f.specificity for f in strong)
        return first_of(f for f in strong if f.specificity >= top - 8)
    return _signal_line(evidence) if cause in _SLURM_CAUSES else None


def _signal_line(evidence: Evidence) -> Finding | None:
    """The first notice of a signal or a cancellation that the program did not survive, as a finding."""
    places = {(line.source, line.offset, line.line) for line in evidence.logs.signalled}
    notices = [
        f for f in evidence.logs.findings if (f.where.source, f.where.offset, f.where.line) in places and not went_on(f)
    ]
    return max(notices, key=lambda f: (f.specificity, -f.order)) if notices else None


def _before_notice(root: Finding, evidence: Evidence) -> bool:
    """Nothing shows that Slurm's notice came first."""
    notices = [f for f in evidence.logs.findings if f.cause in _SLURM_CAUSES and f.specificity >= 45 and not went_on(f)]
    return not any(before(notice, root) for notice in notices)


def _near_the_end(root: Finding, evidence: Evidence) -> bool:
    return any(
        line.offset == root.where.offset and line.source == root.where.source for line in evidence.logs.tail[-15:]
    )


def _against(end: SlurmEnd, choice: Choice) -> tuple[RuledOut, ...]:
    root = choice.root
    if root is None or root.cause in (end.cause, Cause.UNKNOWN):
        return _aside(choice)
    why = f"`{root.where.text.strip()[:90]}` is there, but {end.words}"
    return (RuledOut(root.cause, why), *_aside(choice))


def _aside(choice: Choice) -> tuple[RuledOut, ...]:
    return tuple(
        RuledOut(item.finding.cause, f"`{' '.join(item.finding.where.text.split())[:90]}`: {item.why}")
        for item in choice.aside
    )


def _in_words(evidence: Evidence, end: SlurmEnd, choice: Choice, reading: _Reading) -> Verdict:
    root = reading.root
    words = CAUSES[reading.cause]
    own = root if root is not None and root.cause is reading.cause else None
    retry = reading.retry or (own.retry if own else None) or words.retry
    retry, culprits = _who(evidence, reading, own, retry)
    if own is not None and own.signature == "oom/gpu-driver" and own.startup and evidence.logs.step is None:
        retry = Retry.YES
    advice = reading.advice or (own.advice if own else "") or words.advice
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


def _who(evidence: Evidence, reading: _Reading, own: Finding | None, retry: Retry) -> tuple[Retry, tuple[str, ...]]:
    """Culprit nodes, which are named only where leaving them out would help."""
    if retry is not Retry.YES_EXCLUDE_NODE:
        return retry, ()
    named = culprit_nodes(own, evidence) if own is not None and own.node else ()
    culprits = named or reading.culprits or culprit_nodes(own, evidence)
    return (retry, culprits) if culprits else (Retry.YES, ())


def _sentence(evidence: Evidence, end: SlurmEnd, reading: _Reading, culprits: tuple[str, ...]) -> str:
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
    why = f" ({reading.why})" if reading.why else f" ({end.words})"
    return f"{subject} ended: {name}{where}{why}{line}"


def _proof(evidence: Evidence, reading: _Reading) -> tuple[Line, ...]:
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


def _weaker(evidence: Evidence, reading: _Reading) -> tuple[str, ...]:
    logs = evidence.logs
    missing: list[str] = []
    if not logs.readable:
        missing.append(f"no log could be read ({logs.problem}), so only Slurm's facts count")
    elif logs.problem:
        missing.append(f"some logs could not be read: {logs.problem}")
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
