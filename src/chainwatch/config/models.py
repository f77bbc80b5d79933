"""What the user asks for. Field descriptions are the reference documentation: they are generated from here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from chainwatch.config.alerts import Alerts
from chainwatch.config.checkpoints import Checkpoints as Checkpoints
from chainwatch.config.checkpoints import HandOver as HandOver
from chainwatch.config.section import Section
from chainwatch.config.values import (
    STORED,
    Duration,
    ExpandedPath,
    ExpandedText,
    Moment,
    Options,
    Pattern,
    StepPattern,
    Words,
)
from chainwatch.config.web import Web
from chainwatch.model.chain import Mode


class Mark(Section):
    """A line in the log that proves completion."""

    shorthand: ClassVar[str | None] = "pattern"

    pattern: Pattern
    """Regular expression (RE2 syntax), searched in each line."""
    count: int = Field(default=1, ge=1)
    """In how many lines it must appear: a run of 24 tasks is done when 24 say so."""


class MarkerFile(Section):
    """A file that proves completion."""

    shorthand: ClassVar[str | None] = "path"

    path: ExpandedText
    """Path or glob, relative to the chain's directory."""
    field: str | None = None
    """Key in that JSON file, dots descend (`state.finished`)."""
    equals: str | int | float | bool | None = None
    """What the field must be; by default anything true."""


class Done(Section):
    """What proves that the chain is done. Without any of these a clean exit 0 counts as done, said to be assumed."""

    step: int | None = Field(default=None, ge=1, le=2**63 - 1)
    """Final training step."""
    mark: Mark | None = None
    """Completion mark in the log."""
    file: MarkerFile | None = None
    """Marker file."""
    outputs: tuple[ExpandedText, ...] = ()
    """Globs that must each match at least one file."""
    rule: Literal["all", "any"] = "all"
    """Whether all of these must hold, or any."""

    @property
    def configured(self) -> bool:
        return bool(self.step or self.mark or self.file or self.outputs)


class Logs(Section):
    """Where the job writes its logs. By default Slurm says it."""

    files: tuple[ExpandedText, ...] = ()
    """More log files: paths, globs, or Slurm patterns (%j, %x, …), relative to the chain's directory."""
    progress: StepPattern | None = None
    """Regular expression (RE2) with named groups `step`, and optionally `total`, `loss`, `tokens`."""
    profile: str = "auto"
    """Built-in progress profile (`hf_trainer`, `deepspeed`, `megatron`, …), or `auto`."""
    signatures: ExpandedPath | None = None
    """The user's own signature file."""


class Nodes(Section):
    """Which nodes to keep away from after a hardware failure."""

    exclude_for: Duration = timedelta(days=2)
    """How long a node that a hardware verdict names is excluded: repairs take a day or two; a life sentence starves."""
    max_excluded: int = Field(default=16, ge=0)
    """Most nodes that one chain excludes; the oldest are dropped first."""
    max_share: float = Field(default=0.25, ge=0, le=1)
    """Largest share of the partition's nodes that one chain excludes, so that it never starves."""


class Recovery(Section):
    """When to resubmit, when to wait, when to stop. Defaults say why."""

    shorthand: ClassVar[str | None] = "enabled"

    enabled: bool = True
    """`false`: never resubmits; shown in `status`."""
    retries: int = Field(default=3, ge=0)
    """Failovers without saved progress before the chain rests: a third identical failure has never been chance."""
    retries_per_failure: int = Field(default=2, ge=0)
    """Retries of one and the same failure (fingerprint) without saved progress."""
    preemptions_alert: int = Field(default=5, ge=1)
    """Preemptions since progress was last saved before people are told and submissions are spaced out."""
    preemptions_rest: int = Field(default=20, ge=1)
    """Preemptions since progress was last saved before the chain rests."""
    quick_failure: Duration = timedelta(minutes=10)
    """Two equal failures this soon after the start, at the same place, stop the chain: it is the code or the set-up."""
    backoff: Duration = timedelta(minutes=1)
    """First wait after a storage, network or service failure; doubles, with jitter."""
    backoff_max: Duration = timedelta(hours=1)
    """Longest such wait."""
    grace: Duration = timedelta(0)
    """With another resubmitter: how long to wait for its job before acting."""
    nodes: Nodes = Nodes()
    """Exclusion of nodes."""
    sbatch: Options = ()
    """sbatch options of recovery jobs, after the chain's own (they win): another QOS, partition, --nice, --exclude. An empty
    `--nodelist=` turns the script's own off; nodes that are excluded leave it by themselves."""
    fallback_sbatch: Options = ()
    """sbatch options after `fallback_after` preemptions in a row that each cost more than they computed: less than half
    of the time went into steps that a checkpoint kept, the rest into start-up and steps that are computed again."""
    fallback_after: int = Field(default=3, ge=1)
    """How many such preemptions in a row bring `fallback_sbatch`: two may be chance."""
    fit_time: Duration | None = None
    """Recovery jobs ask for no more time than the remaining steps need: at the best pace so far, a quarter more, and this
    margin for start-up and the last save (`30m`). The limit is only ever made shorter, so that the job starts sooner. By
    default each job asks for what the script asks for."""
    numeric_rollback: bool = False
    """On NaN or a loss-scale floor resume from an *earlier* checkpoint, once, instead of stopping."""
    pending_alert: Duration = timedelta(minutes=30)
    """How long a pending reason that needs a person may last before they are told."""
    release_launch_failures: bool = True
    """Release a job of our own that Slurm itself holds after its launch failed (it drains the node whose prolog failed);
    three times at most. A person's hold is never lifted."""


class Resubmitter(Section):
    """Who else resubmits this chain's jobs."""

    shorthand: ClassVar[str | None] = "by"

    by: Literal["none", "site", "script"] = "none"
    """`site`: the site's own requeue service; `script`: the user's script or the framework itself."""
    grace: Duration = timedelta(minutes=5)
    """How long chainwatch waits for that job to appear before it acts itself."""
    match: Literal["name", "script", "directory", "name+directory"] = "name+directory"
    """What makes a job of the same user one of this chain. Its user is always compared."""


class Hang(Section):
    """When silence is a hang, and what then."""

    alert_after: Duration | None = None
    """Override of the learned threshold while training."""
    startup: Duration = timedelta(minutes=60)
    """Threshold before the first step."""
    floor: Duration = timedelta(minutes=15)
    """The learned threshold is never below this."""
    probe: bool = True
    """Look at a silent job's processes before anybody is told: a short step of chainwatch's own on each of its nodes
    (`srun --overlap`), at most three an hour. It takes nothing of the job."""
    stacks: bool = False
    """Keep what py-spy shows of each rank, too, where it is in the job's environment: `py-spy dump --nonblocking`, in the
    state directory under `stacks/`."""
    end_job: bool = False
    """End a job that hangs, and recover without the node that is to blame: only when it was silent for twice the
    threshold, and two probes surely name the same node."""
    signal: Literal["TERM", "INT", "USR1", "USR2", "ABRT", "QUIT", "HUP", "none"] = "TERM"
    """Sent first to all of the job's processes, so that they leave evidence: `ABRT` makes Python print every stack where
    PYTHONFAULTHANDLER is set. `none`: it is cancelled at once."""
    grace: Duration = timedelta(minutes=2)
    """Time between that signal and scancel."""

    @model_validator(mode="after")
    def _ends_nothing_unseen(self) -> Self:
        if self.end_job and not self.probe:
            raise ValueError(
                "end_job needs the probe: a job is ended only where a look at its processes names the node"
            )
        return self


class Warnings(Section):
    """What is told ahead of time of a job that runs. Each is told once, and taken back when it is over."""

    shorthand: ClassVar[str | None] = "enabled"

    enabled: bool = True
    """`false`: none of them."""
    free_checkpoints: int = Field(default=2, ge=0)
    """Warn when disk, quota or inodes hold fewer checkpoints than this, by the size of the last ones. 0: never."""
    slower_by: float = Field(default=0.5, ge=0, lt=1)
    """Warn when the step rate has fallen by this share of what the chain usually makes, for three polls. 0: never."""
    unsaved_after: float = Field(default=3.0, ge=0)
    """Warn when no checkpoint has come for so many times the usual time between two. 0: never."""
    lost_at_limit: Duration = timedelta(hours=1)
    """Warn when the time limit comes before the next checkpoint and so much work will be lost. `0s`: never. Not where an
    earlier job of the chain has saved just before its time limit."""


class Caps(Section):
    """Where the chain ends, whatever happens."""

    attempts: int | None = Field(default=None, ge=1)
    """Most attempts."""
    gpu_hours: float | None = Field(default=None, gt=0)
    """Most GPU-hours over all attempts."""
    until: Moment | None = None
    """No submission after this moment (`2026-09-01`, `2026-09-01T18:00+02:00`; local time where no zone is given)."""


class Chain(Section):
    """One training run that spans many jobs."""

    mode: Mode = Mode.ACT
    """`observe`: says what it would do. `act`: does it."""
    batch: ExpandedPath
    """The batch script, with its own #SBATCH lines."""
    args: Words = ()
    """Arguments of the script: a list, or one line that is split as a shell would."""
    sbatch: Options = ()
    """Extra sbatch options, each one word (`--qos=extra`), or one line that is split as a shell would."""
    directory: ExpandedPath | None = None
    """Working directory of the job; by default that of the configuration file."""
    cluster: str | None = None
    """Name of the cluster; by default the one that Slurm's configuration names."""
    environment: ExpandedText = "captured"
    """The job's environment: `captured` (when first submitted), `login`, `clean`, or the path of a NAME=value file."""
    script: Literal["live", "pinned"] = "live"
    """`live`: each submission uses the script as it is, and an edit is announced. `pinned`: the first one, kept."""
    checkpoints: Checkpoints | None = None
    """Where the checkpoints are. Without it chainwatch cannot choose one, and says so."""
    logs: Logs = Logs()
    """Where the logs are."""
    done: Done = Done()
    """What proves that the chain is done."""
    recovery: Recovery = Recovery()
    """When to resubmit."""
    resubmitter: Resubmitter = Resubmitter()
    """Who else resubmits."""
    standby: bool = False
    """Keep the next job queued behind the running one (`afterany`), so that its place in the queue is not lost when the
    job ends. Needs `hand_over: command`: the script picks its checkpoint when it starts."""
    hang: Hang = Hang()
    """When silence is a hang."""
    warnings: Warnings = Warnings()
    """What is told ahead of time."""
    caps: Caps = Caps()
    """Where the chain ends."""
    alerts: tuple[str, ...] | None = None
    """Names of the channels that hear of this chain; by default all."""
    template: str | None = None
    """Chains of one template form a cohort: a failure that three of them share is retried in none of them. By default the
    script."""

    @classmethod
    def stored(cls, settings: Mapping[str, Any]) -> Self:
        """From what `model_dump(mode="json")` gave once: its paths were expanded then, and a dollar is a dollar."""
        return cls.model_validate(settings, context=STORED)

    @model_validator(mode="after")
    def _fixed_hand_over_needs_no_requeue(self) -> Self:
        fixed = {HandOver.VARIABLE, HandOver.ARGUMENT}
        if self.checkpoints and self.checkpoints.hand_over in fixed and "--no-requeue" not in self.sbatch:
            raise ValueError(
                f"hand_over: {self.checkpoints.hand_over} is fixed at submission and would grow old in a requeued job: "
                "add --no-requeue to sbatch, or use command, file, pointer or set_aside"
            )
        return self

    @model_validator(mode="after")
    def _a_standby_picks_its_checkpoint_itself(self) -> Self:
        if self.standby and self.checkpoints and self.checkpoints.hand_over is not HandOver.COMMAND:
            raise ValueError(
                f"standby: the next job may start before anybody has looked, and hand_over: {self.checkpoints.hand_over} "
                "would give it a checkpoint that nobody judged: use hand_over: command"
            )
        if self.standby and self.resubmitter.by != "none":
            raise ValueError(
                f"standby: the {self.resubmitter.by} resubmits this chain already, and would do so beside the standby: use "
                "one of the two"
            )
        return self


class Slurm(Section):
    """How to reach Slurm."""

    backend: Literal["auto", "cli", "pyslurm"] = "auto"
    """How the queue and the nodes are read: by the command line tools (`cli`), or by the library `pyslurm` in a process
    of its own. `auto` takes pyslurm only where it is there and of the cluster's release. The tools step in whenever it
    fails; accounting and every action are always theirs."""
    pyslurm_python: ExpandedPath | None = None
    """A Python that has pyslurm; by default the one that runs chainwatch."""
    bin: ExpandedPath | None = None
    """Directory of squeue, sacct, sbatch …; by default PATH."""
    conf: ExpandedPath | None = None
    """slurm.conf; by default SLURM_CONF or Slurm's own default."""
    clusters: tuple[str, ...] = ()
    """Clusters to watch by -M; by default the local one."""
    confs: dict[str, ExpandedPath] = Field(default_factory=dict)
    """Clusters with a slurm.conf of their own, by name, to watch beside those of `clusters`."""
    accounting: bool = True
    """`false`: sacct is not asked, because the site has none or forbids it. Ends are then known only while the controller
    remembers a job (MinJobAge): poll more often than that."""
    deadline: Duration = timedelta(seconds=60)
    """After this long a Slurm command is given up, as is one that prints more than 256 MiB; nothing is concluded."""


class Config(Section):
    """A whole configuration: how chainwatch runs, and the chains."""

    state: ExpandedPath = Field(default=Path("~/.local/state/chainwatch"), validate_default=True)
    """State directory (created with mode 0700): database, journal, logs."""
    database: str | None = None
    """URL of a PostgreSQL database (`postgresql://user@host/name`); by default SQLite in the state directory. Its
    password does not belong here: PostgreSQL reads it from ~/.pgpass or PGPASSFILE."""
    poll: Duration = timedelta(seconds=60)
    """Time between two polls; a jitter per user is added."""
    submissions_per_hour: int | None = Field(default=None, ge=1)
    """Most submissions of this daemon in an hour; what a person submits does not count. By default 60, or two for each
    chain where that is more."""
    settle: Duration = timedelta(seconds=90)
    """How long after a silent sbatch its token must stay unseen before it counts as absent. At least twice Slurm's
    MessageTimeout."""
    slurm: Slurm = Slurm()
    """How to reach Slurm."""
    alerts: Alerts = Alerts()
    """Who hears of what."""
    web: Web = Web()
    """Metrics and the status page."""
    chains: dict[str, Chain] = Field(default_factory=dict)
    """The chains, by name (unique in one state database)."""

    @field_validator("database")
    @classmethod
    def _no_password_in_the_open(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                parts = urlsplit(value)
                secret = parts.password or "password=" in parts.query
            except ValueError:
                raise ValueError("a URL like postgresql://user@host/name is expected") from None
            if secret:
                raise ValueError("a password does not belong in a configuration: put it into ~/.pgpass (mode 0600)")
            if parts.scheme.partition("+")[0] not in {"postgresql", "postgres", "sqlite"}:
                raise ValueError("a URL like postgresql://user@host/name is expected")
        return value

    @field_validator("poll")
    @classmethod
    def _a_good_guest(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=1):
            raise ValueError("polling more than once a second is no way to treat a controller; 60s is the default")
        return value
