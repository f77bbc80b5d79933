"""Why an attempt ended: evidence in, verdict out. A pure function.

The order of belief: proof that the run is done; what Slurm states as a fact about the end (a node failed, it was
preempted); the most specific line of the log that the program did not survive; what Slurm's codes suggest; effects.
"""

from __future__ import annotations

import re
from dataclasses import replace

from chainwatch.diagnosis.choice import Choice, choose
from chainwatch.diagnosis.finished import TEXT_AGAINST_FACT, completion_text, last_completion
from chainwatch.diagnosis.job_side import killed_for_memory, refused_to_start
from chainwatch.diagnosis.notices import (
    SLURM_CAUSES,
    before_notice,
    line_for,
    notice_of_slurm,
    signal_line,
    without_older_attempts,
)
from chainwatch.diagnosis.slurm_end import SlurmEnd, read_slurm, without_probes
from chainwatch.diagnosis.wording import Reading, in_words
from chainwatch.model.verdict import Cause, Evidence, Finding, Outcome, Proof, Retry, RuledOut, Verdict

_OVERRULES_TIMEOUT = 50
_OVERRULES_CANCEL = 58
_FAILS_A_CLEAN_EXIT = 36
_TASK_FAILED = frozenset({"launcher/task-failure"})
_LAST_WORDS = 5
_BESIDES = ("+ ", "wandb:")
"""The shell tells what it does next, a tracker sums up: not the program."""
_GOES_ON = re.compile(
    r"(?i)\b(?:epoch|step|iter(?:ation)?)\b\W{0,3}\d+.*\b(?:loss|acc\w*|lr)\b"
    r"|^[\[\d][\d:,. TZ/-]{14,}\]?(?: - \S+)? - INFO - "
)
"""Training goes on, in words that no progress profile reads, or the program has its usual word."""
_OUTCOMES = {
    Cause.PREEMPTION: Outcome.PREEMPTED,
    Cause.TIME_LIMIT: Outcome.TIMED_OUT,
    Cause.CANCELLED_BY_USER: Outcome.CANCELLED,
    Cause.CANCELLED_BY_OTHER: Outcome.CANCELLED,
}


def diagnose(evidence: Evidence) -> Verdict:
    """Why this attempt ended, whether the unchanged job would help, and what was ruled out."""
    evidence = replace(evidence, job=without_probes(evidence.job))
    end = read_slurm(evidence)
    failures = [f for f in evidence.logs.findings if f.cause is not Cause.COMPLETED]
    choice = choose(failures)
    reading = (
        _proven_done(evidence, end, choice)
        or _slurm_states_it(evidence, end, choice)
        or refused_to_start(evidence)
        or _completed_text(evidence, end, choice)
        or _clean_exit(evidence, end, choice)
        or _stopped_from_outside(evidence, end, choice)
        or killed_for_memory(evidence, choice)
        or _from_the_log(evidence, end, choice)
    )
    return in_words(evidence, end, reading)


def _proven_done(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading | None:
    """Completion evidence beats exit codes, states and whatever the teardown printed."""
    if evidence.completion.proof is not Proof.YES:
        return None
    ruled = []
    if not end.clean:
        ruled.append(RuledOut(end.cause or Cause.UNKNOWN, f"{end.words}, but the run is proven done"))
    root = last_completion(evidence)
    return Reading(
        Outcome.DONE,
        Cause.COMPLETED,
        0.98,
        root,
        Retry.NO,
        advice="Nothing to do.",
        why="its completion is proven",
        ruled_out=tuple(ruled),
    )


def _slurm_states_it(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading | None:
    """Facts that no log line can talk away: a preemption, a dead node, a person's hold, our own scancel."""
    if end.cause is None or end.weight < 93 or completion_text(evidence, end, TEXT_AGAINST_FACT) is not None:
        return None
    root = line_for(end.cause, evidence)
    named = choice.root
    if (
        end.cause is Cause.HARDWARE_NODE
        and named is not None
        and named.cause in (Cause.HARDWARE_GPU, Cause.HARDWARE_NODE)
        and named.specificity >= 90
    ):
        return Reading(end.outcome, named.cause, 0.95, named, named.retry, culprits=end.culprits)
    return Reading(
        end.outcome, end.cause, 0.97, root, end.retry, end.advice, end.culprits, ruled_out=_against(end, choice)
    )


def _completed_text(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading | None:
    """The program said that it finished, and only its teardown or Slurm's flag says otherwise."""
    text = completion_text(evidence, end, 0)
    if text is None:
        return None
    if end.clean and not evidence.completion.configured:
        return Reading(
            Outcome.DONE, Cause.COMPLETED, 0.95, text, Retry.NO, assumed=True, why="it said that it finished"
        )
    ruled = list(_against(end, choice) if end.cause else _aside(choice))
    if choice.root is not None and choice.root.cause is not Cause.UNKNOWN and not choice.root.effect:
        ruled.append(
            RuledOut(choice.root.cause, f"`{choice.root.where.text.strip()[:90]}` does not undo the completion text")
        )
    return Reading(
        Outcome.ENDED,
        Cause.COMPLETED,
        0.8 if end.outcome in (Outcome.FAILED, Outcome.DONE, Outcome.UNKNOWN) else 0.65,
        text,
        Retry.NO,
        advice="The log says that it finished, which is no proof. Look, then say `chainwatch done` or `retry`.",
        why=f"the program said that it finished; {end.words}",
        ruled_out=tuple(ruled),
    )


def _clean_exit(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading | None:
    """COMPLETED 0:0, every step 0:0, no preemption: done if nothing speaks against it, and then only assumed."""
    if not end.clean:
        return None
    root = choice.root
    completion = evidence.completion
    refuted = completion.configured and completion.proof is Proof.NO
    if root is not None and not root.effect:
        if root.cause in SLURM_CAUSES:
            outcome = Outcome.PREEMPTED if root.cause is Cause.PREEMPTION else Outcome.ENDED
            return Reading(outcome, root.cause, 0.75, root, root.retry, why="it stopped in time and exited 0")
        if root.specificity >= _FAILS_A_CLEAN_EXIT and (refuted or _is_the_last_word(root, evidence)):
            return Reading(
                Outcome.FAILED,
                root.cause,
                min(0.85, root.specificity / 100),
                root,
                root.retry if refuted else Retry.NO,
                advice=""
                if refuted
                else "Slurm says COMPLETED, the log ends in an error. Look, then `done` or `retry`.",
                why="Slurm recorded COMPLETED 0:0, so the script hides the exit code of its program",
            )
    stopped = choose([f for f in evidence.logs.findings if f.cause in SLURM_CAUSES]).root
    if stopped is not None and not stopped.effect:
        outcome = Outcome.PREEMPTED if stopped.cause is Cause.PREEMPTION else Outcome.ENDED
        return Reading(outcome, stopped.cause, 0.7, stopped, stopped.retry, why="it stopped in time and exited 0")
    told = signal_line(evidence, {"slurm/sigterm-received"})
    if refuted:
        why = "it exited 0 before its end, as far as the configured proof says"
        cause = Cause.PREEMPTION if told else Cause.UNKNOWN
        return Reading(Outcome.ENDED, cause, 0.6, told, Retry.YES, why=why)
    if completion.configured:
        return Reading(
            Outcome.ENDED,
            Cause.UNKNOWN,
            0.4,
            None,
            Retry.WAIT,
            why="it exited 0, and its proof of completion could not be read",
            advice="The proof of completion could not be read. Make it readable, or say `chainwatch done` or `retry`.",
        )
    if told is not None:
        why = "it exited 0 after a signal from outside, so it is not done"
        return Reading(Outcome.ENDED, Cause.PREEMPTION, 0.5, told, Retry.YES, why=why)
    if root is not None and root.signature in _TASK_FAILED:
        return Reading(
            Outcome.ENDED,
            Cause.UNKNOWN,
            0.4,
            root,
            Retry.NO,
            why="it exited 0, but Slurm says in its log that tasks failed",
            advice="Slurm says COMPLETED, but ended a step because tasks failed. Look, then `done` or `retry`.",
        )
    confidence = 0.7 if evidence.logs.readable else 0.55
    return Reading(Outcome.DONE, Cause.COMPLETED, confidence, None, Retry.NO, assumed=True, why="it exited 0")


def _stopped_from_outside(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading | None:
    """Time limit, scancel, out of memory: unless the program had failed before, and only its remains were stopped."""
    if end.cause not in {*SLURM_CAUSES, Cause.OOM_HOST, Cause.HARDWARE_NODE, Cause.USER_CONFIG} or end.weight < 50:
        return None
    said = notice_of_slurm(evidence)
    if said is not None and end.cause in (Cause.CANCELLED_BY_USER, Cause.CANCELLED_BY_OTHER):
        why = f"{end.words}, and Slurm's notice says why"
        return Reading(_OUTCOMES[said.cause], said.cause, 0.9, said, said.retry, why=why)
    own = choose([f for f in evidence.logs.findings if f.cause not in {*SLURM_CAUSES, Cause.COMPLETED}])
    root = own.root
    limit = {
        Cause.TIME_LIMIT: _OVERRULES_TIMEOUT,
        Cause.OOM_HOST: 93,
    }.get(end.cause, _OVERRULES_CANCEL if end.cause in SLURM_CAUSES else end.weight)
    if root is not None and root.cause not in SLURM_CAUSES and root.cause is not end.cause:
        hung = root.cause is Cause.HANG and end.cause in SLURM_CAUSES and root.specificity >= 40
        telling = end.cause is Cause.TIME_LIMIT and root.specificity >= _FAILS_A_CLEAN_EXIT
        died = telling and _is_the_last_word(root, evidence)
        worked_on = (root.survived > 0 or root.well > 0) and "slurmstepd: " not in root.where.text
        overrules = (root.specificity >= limit or hung or died) and not worked_on
        if overrules and not root.effect and before_notice(root, evidence):
            ruled = RuledOut(
                end.cause, f"{end.words}, but the program had failed before: only its remains were stopped"
            )
            return Reading(
                end.outcome,
                root.cause,
                min(0.9, root.specificity / 100),
                root,
                root.retry,
                ruled_out=(ruled, *_aside(own)),
                why=f"it had failed before it {'was cancelled' if end.outcome is Outcome.CANCELLED else 'was stopped'}",
            )
    line = line_for(end.cause, evidence)
    return Reading(
        end.outcome,
        end.cause,
        0.93 if end.weight >= 75 else 0.85,
        line,
        end.retry,
        end.advice,
        end.culprits,
        ruled_out=_against(end, choice),
    )


def _from_the_log(evidence: Evidence, end: SlurmEnd, choice: Choice) -> Reading:
    """FAILED and the like: the most specific line that the program did not survive; then what the codes suggest."""
    choice = without_older_attempts(evidence, choice)
    root = choice.root
    outcome = end.outcome if end.outcome is not Outcome.DONE else Outcome.FAILED
    if end.cause is not None and (root is None or root.specificity < end.weight):
        line = line_for(end.cause, evidence) or root
        return Reading(
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
        signalled = signal_line(evidence)
        return Reading(outcome, cause, 0.2, signalled, end.retry, end.advice or "")
    if root.effect:
        confidence = 0.45 if root.specificity >= 20 else 0.3
        signal = line_for(Cause.TIME_LIMIT, evidence) if end.requeued else None
        return Reading(
            outcome, root.cause, confidence, signal or root, end.retry or root.retry, ruled_out=_aside(choice)
        )
    return Reading(
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


def _is_the_last_word(root: Finding, evidence: Evidence) -> bool:
    """Hardly anything but echoes follows the line: the program did not go on with something else."""
    places = {(f.where.source, f.where.offset) for f in evidence.logs.findings}
    tail = [line for line in evidence.logs.tail if line.source == root.where.source and line.offset is not None]
    if not any(line.offset == root.where.offset for line in tail):
        return False
    after = [line for line in tail if (line.offset or 0) > (root.where.offset or 0) and line.text.strip()]
    after = [line for line in after if not line.text.startswith(_BESIDES)]
    if root.well or sum(_GOES_ON.search(line.text) is not None for line in after) > 1:
        return False
    return sum((line.source, line.offset) not in places for line in after) <= _LAST_WORDS


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
