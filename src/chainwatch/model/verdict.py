"""What an attempt left behind (evidence) and what it means (verdict)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job, Node, Source
from chainwatch.model.room import Room


class Outcome(StrEnum):
    """How an attempt ended, in the eyes of its chain."""

    DONE = "done"
    PREEMPTED = "preempted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NODE_FAILED = "node_failed"
    FAILED = "failed"
    HUNG = "hung"
    ENDED = "ended"
    """It ended without an error, and nothing proves that the chain is done."""
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why an attempt ended: a closed list, each with its advice in the documentation."""

    COMPLETED = "completed"
    PREEMPTION = "preemption"
    TIME_LIMIT = "time_limit"
    CANCELLED_BY_USER = "cancelled_by_user"
    CANCELLED_BY_OTHER = "cancelled_by_other"
    HARDWARE_GPU = "hardware_gpu"
    HARDWARE_NODE = "hardware_node"
    NETWORK_FABRIC = "network_fabric"
    STORAGE = "storage"
    OOM_GPU = "oom_gpu"
    OOM_HOST = "oom_host"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    NUMERIC = "numeric"
    HANG = "hang"
    RENDEZVOUS = "rendezvous"
    TRANSIENT_SERVICE = "transient_service"
    ENVIRONMENT = "environment"
    USER_CONFIG = "user_config"
    USER_CODE = "user_code"
    UNKNOWN = "unknown"


class Retry(StrEnum):
    """Would the *unchanged* resubmission help?"""

    YES = "yes"
    YES_EXCLUDE_NODE = "yes_exclude_node"
    NO = "no"
    WAIT = "wait"


class Proof(StrEnum):
    """Three-valued: proven, refuted, or nothing known."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of evidence, verbatim, with where it stands."""

    source: str
    """A log's path, or the Slurm source (`sacct`, `squeue`, …) whose fact is quoted."""
    line: int | None
    """1-based line number in that file; None for facts that are no lines, and where a huge log was not read whole."""
    text: str
    offset: int | None = None
    """Byte offset of the line in its file, where it is a line of a file."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One match of a signature in this attempt's part of a log."""

    signature: str
    """Id of the signature, `family/name`."""
    cause: Cause
    specificity: int
    """0–100: how much the line says by itself. A named hardware fault is near 100, a bare exit code near 0; effects of
    something else (NCCL aborts, SIGTERM on other ranks) are marked by `effect`."""
    where: Line
    order: int
    """Position among all lines read for this attempt, over all files; times order findings only where both have one."""
    at: datetime | None = None
    effect: bool = False
    retry: Retry | None = None
    node: str | None = None
    rank: int | None = None
    extracted: Mapping[str, str] = field(default_factory=dict)
    """What the pattern's named groups gave: gpu, xid, file, step, …"""
    advice: str = ""
    survived: int = 0
    """How many different newer training steps the same file tells below this line (counted up to 12): a program that
    goes on training did not end of it."""
    well: int = 0
    """So many lines soon below it say that something went well."""
    survivable: bool = False
    """Scripts and programs often go on after such a line."""
    startup: bool = False
    """No training step was told above this line in what was read of its file."""


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """What this attempt's part of the logs says. `readable` False means: no information, not a clean log."""

    files: tuple[str, ...] = ()
    readable: bool = True
    problem: str = ""
    """Why a log could not be read (missing, permission, storage hangs), for people."""
    no_directory: tuple[str, ...] = ()
    """Directories of logs that are not there, so that Slurm may have had no place for the output."""
    findings: tuple[Finding, ...] = ()
    tail: tuple[Line, ...] = ()
    """Last lines, for people and alerts."""
    bytes_read: int = 0
    signalled: tuple[Line, ...] = ()
    """Lines in which a signal or Slurm's own cancellation notice appears, oldest first."""
    unread: int = 0
    """Bytes of this attempt's part that were skipped, because the log is huge and its end explained enough."""
    step: int | None = None
    """Newest training step that the end of the logs tells, with final step (`total`) and loss where it tells them."""
    total: int | None = None
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the chain is, as far as anything written says."""

    step: int | None = None
    """Newest training step that was reached."""
    saved_step: int | None = None
    """Newest step that is safely saved (an intact checkpoint)."""
    target: int | None = None
    source: str = ""
    """What said so: a log line, trainer_state.json, a checkpoint, the heartbeat."""
    at: datetime | None = None
    """When the newest step was reached, where known."""
    loss: float | None = None
    tokens: int | None = None
    """Tokens trained on so far, where the log tells them."""
    rate: float | None = None
    """Steps per second over the recent past."""
    phase: str = ""
    """`training`, `evaluation` or `saving`, as the run says; empty where it does not."""
    restarts: int = 0
    """How often a launcher (torchrun, ft_launcher) restarted the workers inside the job, as far as it was followed."""
    life: str = ""
    """Changes with every sign of life (logs that grow, heartbeats, checkpoint bytes); only to be compared."""
    room: Room | None = None
    """What is left where it saves; None where nobody looked."""


@dataclass(frozen=True, slots=True)
class RuleFact:
    """One configured rule, measured."""

    rule: str
    """What is asked, as a clause: `final step 5000`, `3 lines like /done/ in the log`."""
    proof: Proof
    """YES: it holds. NO: it was looked at and does not hold. UNKNOWN: it could not be looked at."""
    found: str
    """What is there: `step 4100 was reached`, `2 such lines`, `no such file`."""
    lines: tuple[Line, ...] = ()
    """The lines that prove it."""

    def sentence(self) -> str:
        return f"{self.rule}: {self.found}"


@dataclass(frozen=True, slots=True)
class Completion:
    """Is the chain done? With what proof, and what speaks against it."""

    proof: Proof
    rules: tuple[str, ...] = ()
    """Each configured rule as a sentence with what was found; empty where no rule is configured."""
    proving: tuple[Line, ...] = ()
    contradicting: tuple[str, ...] = ()
    configured: bool = False
    """False: no rule is configured, so done can at best be assumed."""


@dataclass(frozen=True, slots=True)
class EndRecord:
    """What the job side noted when the command ended; outlives srun's rewriting of exit codes."""

    node: str
    exit_code: int | None
    signal: int | None
    at: datetime
    signals: tuple[tuple[str, datetime], ...] = ()
    """Signals that reached the wrapper, oldest first."""
    saving: bool | None = None
    """A save was under way when the first signal came."""
    oom_kill: bool = False
    preflight: str = ""
    """Why the preflight refused the node; empty if it passed or was not run."""
    bad_node: str | None = None
    resumed_from: str | None = None
    image: str = ""
    """Container image that the command ran in, where its runtime tells."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about one ended attempt. Pure input of `diagnose`."""

    job: Job
    """Slurm's facts, merged over the sources that answered."""
    sources: frozenset[Source] = frozenset()
    logs: LogEvidence = LogEvidence()
    progress: Progress = Progress()
    completion: Completion = Completion(Proof.UNKNOWN)
    nodes: tuple[Node, ...] = ()
    """States of the attempt's nodes at the time of judging; empty where sinfo did not answer."""
    checkpoints: RunReport | None = None
    """None: not looked at, or the storage did not answer."""
    resumed_from: str | None = None
    """Path of the checkpoint that this attempt is known to have loaded."""
    end_records: tuple[EndRecord, ...] = ()
    ended_by_us: str = ""
    """Why chainwatch itself ended this job (hang, duplicate), empty otherwise."""
    suspects: tuple[str, ...] = ()
    """Nodes that the probe named, where chainwatch ended a hang."""
    first_seen_step: int | None = None
    """Progress of the chain when the attempt began."""
    chain_user: str = ""
    user_uid: int | None = None
    """Uid of the job's user, to tell a cancellation by that person from one by somebody else; None where not known."""


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A reading that suggested itself, and why it is not the cause."""

    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evidence means."""

    outcome: Outcome
    cause: Cause
    retry: Retry
    confidence: float
    """0–1."""
    sentence: str
    """One human sentence: what ended, and why."""
    advice: str = ""
    culprit_nodes: tuple[str, ...] = ()
    root_line: str | None = None
    """The line that is the cause, verbatim."""
    evidence: tuple[Line, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    fingerprint: str = ""
    """Root cause normalised (numbers, addresses, paths and hosts stripped) plus the affected entity: the same failure
    on another node or at another step has the same fingerprint."""
    assumed: bool = False
    """Done is only assumed (no rule configured)."""
    weaker: tuple[str, ...] = ()
    """What could not be looked at, and what that takes from the verdict."""

    @property
    def proven_done(self) -> bool:
        """The run is done, and that is not only assumed."""
        return self.outcome is Outcome.DONE and not self.assumed
