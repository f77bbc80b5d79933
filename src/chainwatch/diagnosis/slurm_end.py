"""What Slurm's own facts say of an end: state, reason, codes, steps, PreemptTime. No log is looked at here."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from chainwatch.model.job import ExitCode, Job, JobState, Step
from chainwatch.model.probe import STEP_LABEL
from chainwatch.model.text import make_directories
from chainwatch.model.verdict import Cause, Evidence, Outcome, Retry

_RAISED = re.compile(r"RaisedSignal:(\d+)")
_OOM_SIGNAL = 125
"""Slurm's pseudo signal for an out-of-memory kill."""
_SIGNALS = {
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    15: "SIGTERM",
}


@dataclass(frozen=True, slots=True)
class SlurmEnd:
    """What Slurm's facts alone say."""

    outcome: Outcome
    words: str
    """A clause for people: `FAILED 1:0`, `preempted at …`."""
    cause: Cause | None = None
    """None: they do not say why."""
    weight: int = 0
    """On the scale of a signature's specificity; a log line must weigh more to overrule it."""
    retry: Retry | None = None
    culprits: tuple[str, ...] = ()
    advice: str = ""
    clean: bool = False
    """COMPLETED 0:0 with every step 0:0."""
    requeued: bool = False
    """Slurm has the same id in the queue again."""


def read_slurm(evidence: Evidence) -> SlurmEnd:
    """The end as Slurm's facts tell it. Rules were measured on Slurm 22.05, 24.11 and 26.05."""
    job = evidence.job
    if evidence.ended_by_us and job.state is not JobState.NODE_FAIL:
        return _ended_by_us(evidence)
    if not job.state.terminal and job.state is not JobState.UNKNOWN:
        return _back_in_queue(job)
    if job.state in (JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL):
        return _node_failed(evidence)
    if job.state is JobState.CANCELLED:
        return _cancelled(evidence)
    if job.state is JobState.PREEMPTED or job.preempted_at is not None:
        when = f" at {job.preempted_at:%Y-%m-%d %H:%M:%S} UTC" if job.preempted_at else ""
        hidden = "" if job.state is JobState.PREEMPTED else f" (Slurm recorded {_state_words(job)})"
        return SlurmEnd(Outcome.PREEMPTED, f"preempted{when}{hidden}", Cause.PREEMPTION, 95)
    if job.state is JobState.TIMEOUT:
        return SlurmEnd(Outcome.TIMED_OUT, "ran into its time limit", Cause.TIME_LIMIT, 80)
    if job.state is JobState.DEADLINE:
        return SlurmEnd(
            Outcome.TIMED_OUT,
            "missed its --deadline",
            Cause.TIME_LIMIT,
            95,
            Retry.NO,
            advice="The job could not end before its --deadline. Set a later one, or ask for less time.",
        )
    if job.state is JobState.OUT_OF_MEMORY or _oom_step(job):
        return SlurmEnd(Outcome.FAILED, _oom_words(job), Cause.OOM_HOST, 90)
    if job.state is JobState.COMPLETED:
        return _completed(job)
    if job.state is JobState.FAILED:
        return _failed(job, evidence.logs.no_directory)
    return SlurmEnd(Outcome.UNKNOWN, _state_words(job))


def without_probes(job: Job) -> Job:
    """The job without the steps of our own probes, and without a DerivedExitCode that may be theirs."""
    ours = [step for step in job.steps if step.label == STEP_LABEL]
    if not ours:
        return job
    failed = any(step.state is not JobState.COMPLETED or (step.exit is not None and not step.exit.ok) for step in ours)
    steps = tuple(step for step in job.steps if step.label != STEP_LABEL)
    return replace(job, steps=steps, derived_exit=None if failed else job.derived_exit)


def failed_steps(job: Job) -> tuple[Step, ...]:
    """Steps that did not end well, Slurm's `extern` aside."""
    return tuple(
        step
        for step in job.steps
        if step.name != "extern" and (step.state in _BAD_STEPS or (step.exit is not None and not step.exit.ok))
    )


_BAD_STEPS = frozenset(
    {
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.OUT_OF_MEMORY,
        JobState.NODE_FAIL,
        JobState.TIMEOUT,
        JobState.PREEMPTED,
    }
)


def _ended_by_us(evidence: Evidence) -> SlurmEnd:
    why, suspects = evidence.ended_by_us, evidence.suspects
    if "hang" in why.lower() or "hung" in why.lower() or "no progress" in why.lower():
        retry = Retry.YES_EXCLUDE_NODE if suspects else None
        return SlurmEnd(Outcome.HUNG, f"chainwatch ended it: {why}", Cause.HANG, 100, retry, culprits=suspects)
    return SlurmEnd(Outcome.CANCELLED, f"chainwatch ended it: {why}", Cause.CANCELLED_BY_OTHER, 100, Retry.NO)


def _back_in_queue(job: Job) -> SlurmEnd:
    reason = job.reason.replace("_", " ").lower()
    if "launch failed requeued held" in reason:
        return SlurmEnd(
            Outcome.NODE_FAILED,
            "its launch failed, and Slurm holds the requeued job",
            Cause.HARDWARE_NODE,
            96,
            Retry.YES_EXCLUDE_NODE,
            culprits=job.nodes if len(job.nodes) == 1 else (),
            advice="The held job waits for ever. Exclude the node, then release the job (scontrol release).",
        )
    if "jobheldadmin" in reason:
        return SlurmEnd(
            Outcome.CANCELLED,
            "an administrator holds it",
            Cause.CANCELLED_BY_OTHER,
            98,
            Retry.NO,
            advice="An administrator's hold is never released from here. Ask the site's staff.",
        )
    if "jobhelduser" in reason or "requeued in held state" in reason or job.held:
        return SlurmEnd(
            Outcome.CANCELLED,
            "it is back in the queue, held by a person",
            Cause.CANCELLED_BY_USER,
            98,
            Retry.NO,
            advice="Somebody holds the job. Release it (scontrol release) to go on.",
        )
    if job.state.on_nodes:
        return SlurmEnd(Outcome.UNKNOWN, f"it is {job.state.value}, not ended", retry=Retry.WAIT)
    outcome = Outcome.PREEMPTED if job.preempted_at else Outcome.ENDED
    cause = Cause.PREEMPTION if job.preempted_at else None
    why = f", reason {job.reason}" if job.reason else ""
    return SlurmEnd(
        outcome,
        f"Slurm has it in the queue again under the same id ({job.state.value}{why})",
        cause,
        95 if cause else 0,
        Retry.WAIT,
        advice="The job was requeued already; a second submission would run beside it.",
        requeued=True,
    )


def _node_failed(evidence: Evidence) -> SlurmEnd:
    job = evidence.job
    down = tuple(
        node.name
        for node in evidence.nodes
        if node.name in job.nodes
        and (node.state in {"down", "fail", "error", "future", "unknown"} or "not_responding" in node.flags)
    )
    culprits = (job.failed_node,) if job.failed_node else down or (job.nodes if len(job.nodes) == 1 else ())
    words = {JobState.NODE_FAIL: "a node failed", JobState.BOOT_FAIL: "a node did not boot"}
    return SlurmEnd(
        Outcome.NODE_FAILED,
        words.get(job.state, "its launch failed on a node"),
        Cause.HARDWARE_NODE,
        94,
        culprits=culprits,
    )


def _cancelled(evidence: Evidence) -> SlurmEnd:
    job = evidence.job
    reason = job.reason.replace("_", " ").lower()
    if "dependency" in reason and job.start is None:
        return SlurmEnd(
            Outcome.CANCELLED,
            "Slurm cancelled it: its dependency can never be satisfied",
            Cause.USER_CONFIG,
            90,
            Retry.NO,
            advice="The job it waited for did not end as asked. Submit it with another --dependency.",
        )
    if job.cancelled_by == 0 and evidence.user_uid != 0:
        return SlurmEnd(Outcome.CANCELLED, "root cancelled it", Cause.CANCELLED_BY_OTHER, 75)
    if job.cancelled_by is not None and evidence.user_uid is not None and job.cancelled_by != evidence.user_uid:
        return SlurmEnd(
            Outcome.CANCELLED,
            f"it was cancelled by uid {job.cancelled_by}, not by its user",
            Cause.CANCELLED_BY_OTHER,
            75,
        )
    if job.preempted_at is not None or "preempted" in reason:
        return SlurmEnd(Outcome.PREEMPTED, "cancelled while it was being preempted", Cause.PREEMPTION, 80)
    return SlurmEnd(Outcome.CANCELLED, "it was cancelled (scancel)", Cause.CANCELLED_BY_USER, 60)


def _completed(job: Job) -> SlurmEnd:
    failed = failed_steps(job)
    derived_bad = job.derived_exit is not None and not job.derived_exit.ok
    exit_bad = job.exit is not None and not job.exit.ok
    if not failed and not derived_bad and not exit_bad:
        return SlurmEnd(Outcome.DONE, "COMPLETED 0:0", clean=True)
    what = ", ".join(f"step {step.name} {step.state.value} {step.exit or ''}".strip() for step in failed)
    return SlurmEnd(
        Outcome.FAILED,
        f"COMPLETED, but {what or f'the highest exit code of its steps is {job.derived_exit or job.exit}'}",
        *_of_signal(_signal_of_steps(failed[:1])),
    )


def _failed(job: Job, no_directory: tuple[str, ...]) -> SlurmEnd:
    reason = job.reason.replace("_", " ")
    words = _state_words(job)
    code = job.exit or ExitCode(1)
    signal = _signal(job)
    lowered = reason.lower()
    if (code.code == 0 and code.signal == 53) or "raisedsignal:53(" in lowered:
        where = f": {' and '.join(no_directory)} does not exist" if no_directory else ""
        return SlurmEnd(
            Outcome.FAILED,
            f"Slurm could not open its output file{where}",
            Cause.USER_CONFIG,
            80,
            Retry.NO,
            advice=place_for_logs(no_directory)
            or "The directory of --output or --error does not exist or cannot be written. Create it.",
        )
    if "prolog" in lowered or "epilog" in lowered:
        return SlurmEnd(Outcome.NODE_FAILED, f"{words}: {reason}", Cause.HARDWARE_NODE, 88, culprits=_only(job))
    # JobLaunchFailure is also what Slurm says of a script that a signal killed.
    if "launch" in lowered and signal is None:
        return SlurmEnd(Outcome.NODE_FAILED, f"{words}: {reason}", Cause.HARDWARE_NODE, 60, culprits=_only(job))
    if lowered.replace(" ", "") in {
        "badconstraints",
        "partitionconfig",
        "invalidaccount",
        "invalidqos",
        "partitiontimelimit",
    }:
        return SlurmEnd(Outcome.FAILED, f"{words}: {reason}", Cause.USER_CONFIG, 85, Retry.NO)
    if code.code == 127:
        return SlurmEnd(Outcome.FAILED, f"{words}: a command was not found", Cause.ENVIRONMENT, 30)
    if code.code == 126:
        return SlurmEnd(Outcome.FAILED, f"{words}: a command could not be executed", Cause.USER_CONFIG, 30)
    if code.code == 124:
        return SlurmEnd(Outcome.FAILED, f"{words}, the code of a `timeout` command", Cause.TIME_LIMIT, 30)
    if code.code == 2 and code.signal == 0:
        return SlurmEnd(Outcome.FAILED, words, Cause.USER_CONFIG, 15)
    cause, weight = _of_signal(signal)
    named = f"{words} ({_SIGNALS[signal]})" if signal in _SIGNALS else words
    return SlurmEnd(Outcome.FAILED, named, cause, weight)


def place_for_logs(missing: tuple[str, ...]) -> str:
    """What to do about directories of logs that are not there; empty where none is missing."""
    return f"Make the directory of its log: {make_directories(missing)}" if missing else ""


def _of_signal(signal: int | None) -> tuple[Cause | None, int]:
    """What a bare signal suggests: little. A SIGKILL without a word is often the OOM killer, a SIGINT a person."""
    return {
        2: (Cause.CANCELLED_BY_USER, 30),
        4: (Cause.ENVIRONMENT, 50),
        7: (Cause.ENVIRONMENT, 25),
        9: (Cause.OOM_HOST, 22),
        10: (Cause.TIME_LIMIT, 50),
        12: (Cause.TIME_LIMIT, 50),
    }.get(signal or 0, (None, 0))


def _signal(job: Job) -> int | None:
    """The signal that ended the job, as far as the codes say: 0:9, 137:0, 22.05's 9:0, `RaisedSignal:9(Killed)`."""
    if found := _RAISED.search(job.reason):
        return int(found[1])
    if job.exit is None:
        return _signal_of_steps(failed_steps(job))
    if job.exit.signal:
        return job.exit.signal
    if 128 < job.exit.code < 193:
        return job.exit.code - 128
    derived = job.derived_exit
    if derived is not None and derived.signal and derived.signal in (job.exit.code, 9, 11, 4, 7):
        return derived.signal
    if job.exit.code in (9, 11) and job.exit.code != 1:
        return job.exit.code
    return None


def _signal_of_steps(steps: tuple[Step, ...]) -> int | None:
    return next((step.exit.signal for step in steps if step.exit is not None and step.exit.signal), None)


def _oom_step(job: Job) -> bool:
    codes = [job.exit, job.derived_exit, *(step.exit for step in job.steps)]
    return any(code is not None and code.signal == _OOM_SIGNAL for code in codes) or any(
        step.state is JobState.OUT_OF_MEMORY for step in job.steps
    )


def _oom_words(job: Job) -> str:
    if job.state is JobState.OUT_OF_MEMORY:
        return "OUT_OF_MEMORY"
    step = next((step.name for step in job.steps if step.state is JobState.OUT_OF_MEMORY), None)
    return f"{_state_words(job)}, but {f'step {step}' if step else 'a step'} ran out of memory"


def _only(job: Job) -> tuple[str, ...]:
    return job.nodes if len(job.nodes) == 1 else ()


def _state_words(job: Job) -> str:
    return (
        f"{job.raw_state or job.state.value} {job.exit}" if job.exit is not None else job.raw_state or job.state.value
    )
