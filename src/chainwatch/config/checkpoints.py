"""Where a chain's checkpoints are, how a job learns which one to use, and whether they are sealed."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from chainwatch.config.section import Section
from chainwatch.config.values import Duration, ExpandedPath, Options


class HandOver(StrEnum):
    """How the checkpoint to resume from reaches the job. All but the last two are resolved when the job *starts*."""

    COMMAND = "command"
    """The script calls `$(chainwatch latest …)` or `chainwatch exec`."""
    FILE = "file"
    """CHAINWATCH_RESUME_FILE names a file that holds the path; chainwatch rewrites it until the job starts."""
    POINTER = "pointer"
    """The framework's own pointer file (`latest`, …) is mended to name the newest intact checkpoint."""
    SET_ASIDE = "set_aside"
    """Damaged checkpoints are moved aside (journaled; `chainwatch restore` undoes it), pointers are mended."""
    VARIABLE = "variable"
    """A plain environment variable, fixed at submission; only together with --no-requeue."""
    ARGUMENT = "argument"
    """A script argument, fixed at submission; only together with --no-requeue."""


class Seal(Section):
    """Digests of the newest intact checkpoints: what rots later shows also in formats that carry no checksum."""

    shorthand: ClassVar[str | None] = "enabled"

    enabled: bool = True
    """Whether seals are made."""
    where: Literal["daemon", "job"] = "daemon"
    """Who reads: the daemon, beside its loop, with idle I/O priority; or a Slurm job that `chainwatch` submits."""
    keep: int = Field(default=2, ge=1)
    """How many of the newest intact checkpoints have a seal."""
    mb_per_second: float | None = Field(default=200, gt=0)
    """Most megabytes that are read in a second; `null` leaves it to the idle priority."""
    sbatch: Options = ()
    """Options of the sealing job (partition, account, time), for `where: job`."""

    @property
    def bytes_per_second(self) -> int | None:
        return None if self.mb_per_second is None else int(self.mb_per_second * 1e6)


class Checkpoints(Section):
    """Where the checkpoints are, and how the job is told which one to use."""

    shorthand: ClassVar[str | None] = "directory"

    directory: ExpandedPath
    """Run directory that holds the checkpoints. Relative to the chain's directory."""
    format: str = "auto"
    """Name of the checkpoint format, or `auto`: found by what lies there."""
    hand_over: HandOver = HandOver.COMMAND
    """How the checkpoint reaches the job."""
    variable: str = "CHAINWATCH_RESUME_FROM"
    """Name of the environment variable for `hand_over: variable`."""
    argument: str = "--resume={path}"
    """Template of the argument for `hand_over: argument`; `{path}` and `{step}` are filled in."""
    paths: dict[str, str] = Field(default_factory=dict)
    """Directories as the program in its container sees them (`/scratch: /data`): what is handed over is written so."""
    settle: Duration = timedelta(minutes=2)
    """A checkpoint without a living writer that did not change for this long is incomplete, no longer in progress."""
    read_deadline: Duration = timedelta(minutes=2)
    """Storage that does not answer for this long is reported, and nothing is concluded."""
    from_scratch: Literal["never", "if_none_intact"] = "never"
    """What to do if checkpoints exist and none is intact: `never` stops and tells a person."""
    seal: Seal = Seal(enabled=False)
    """Digests of new intact checkpoints, kept in the state directory, to see later bit rot: `true`, or how."""
    custom: dict[str, Any] | None = None
    """The rule of `format: custom`: files that must exist (glob, count, minimal size), JSON key equal to the step."""

    @field_validator("paths")
    @classmethod
    def _absolute(cls, value: dict[str, str]) -> dict[str, str]:
        for host, inside in value.items():
            if not host.startswith("/") or not inside.startswith("/"):
                raise ValueError(f"both must be absolute paths, on the host and in the container, not {host}: {inside}")
        return value
