"""Running one Slurm client and judging what came back.

A client is run with a scrubbed environment, a deadline and its own process group, and its bytes are kept as they are
until somebody decodes them. Silence is never an answer: whatever is not surely an answer raises `NoInformation`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.pipes import OutOfTime, TooMuch, exchange

_DROPPED_PREFIXES = (
    "SQUEUE_",
    "SACCT_",
    "SINFO_",
    "SCONTROL_",
    "SBATCH_",
    "SALLOC_",
    "SRUN_",
    "SACCTMGR_",
    "SCANCEL_",
    "SLURM_",
    "SLURMD_",
    "SLURMDB_",
)
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})
"""Where the cluster is, and what signs requests on sites without munge."""

_ABSENT = re.compile(r"Invalid job id specified")
_ERROR = re.compile(
    r"""^(?: [\w./-]+:\s )?  (?:error|fatal):\s
      | ^slurm_\w+(?:\serror)?:\s      # slurm_perror: "slurm_load_jobs error: …", "slurm_load_partitions: …"
      | ^slurm_load_\w+
      | ^Slurm\ accounting\ storage\ is\ disabled
      | ^Invalid\ (?:user|job|node|partition|qos)\b
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client printed, and how it ended."""

    command: tuple[str, ...]
    code: int
    """Exit code; negative where a signal ended it."""
    stdout: bytes
    stderr: str
    seconds: float

    @property
    def text(self) -> str:
        """stdout with undecodable bytes kept as surrogates, so that writing it back gives the same bytes."""
        return self.stdout.decode("utf-8", "surrogateescape")

    @property
    def errors(self) -> tuple[str, ...]:
        """The lines on stderr that Slurm itself means as errors; module and login noise left out."""
        return tuple(line for line in self.stderr.splitlines() if _ERROR.search(line.strip()))

    @property
    def says_absent(self) -> bool:
        """The controller does not know the id that was asked for, and had nothing worse to say."""
        lines = self.errors
        return bool(lines) and all(_ABSENT.search(line) for line in lines)

    def complaint(self) -> str:
        """The line that says most about a failure, for people."""
        lines = self.errors or tuple(line for line in self.stderr.splitlines() if line.strip())
        if not lines:
            return "it printed no error"
        return max(lines, key=_telling).strip()[:300]


class TimedOut(NoInformation):
    """A client did not come back within its deadline; it was killed with its children."""

    def __init__(self, message: str, printed: bytes = b"") -> None:
        super().__init__(message)
        self.printed = printed
        """What it had printed until then: half of something."""


Runner = Callable[..., Reply]
"""The type of `run`; tests put another in its place."""


def client_environment(environment: Mapping[str, str], conf: str | None) -> dict[str, str]:
    """The environment in which Slurm's clients give the output that the parsers expect.

    Everything that changes formats or drops rows (`SQUEUE_*`, `SACCT_*`, `SLURM_TIME_FORMAT`, …) is removed; times come
    as epochs, array lists uncut, texts in UTF-8. `conf` (a slurm.conf) replaces SLURM_CONF.
    """
    kept = {
        name: value for name, value in environment.items() if name in _KEPT or not name.startswith(_DROPPED_PREFIXES)
    }
    kept.update(LC_ALL="C.UTF-8", LANG="C.UTF-8", TZ="UTC", SLURM_TIME_FORMAT="%s", SLURM_BITSTR_LEN="0")
    kept.pop("LANGUAGE", None)
    if conf:
        kept["SLURM_CONF"] = conf
    return kept


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    deadline: float,
    cwd: str | None = None,
    umask: int = -1,
    stdin: bytes | None = None,
) -> Reply:
    """Run one client to its end and return what it printed, whatever its exit code.

    Parameters
    ----------
    deadline
        Seconds until the client and its children are killed and `TimedOut` is raised.
    stdin
        What it reads; by default nothing.

    Raises
    ------
    NoInformation
        Where the program cannot be started (not installed, not permitted), or prints more than `pipes.MOST_OUTPUT`.
    """
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=cwd,
            umask=umask,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as problem:
        if cwd is not None and not os.path.isdir(cwd):
            raise NoInformation(f"the directory {cwd} cannot be entered: {problem.strerror}") from problem
        raise NoInformation(f"{command[0]} cannot be started: {problem.strerror}") from problem
    try:
        stdout, stderr = exchange(process, stdin, begun + deadline)
        process.wait(max(0.0, begun + deadline - time.monotonic()))
    except OutOfTime as late:
        _kill_group(process)
        raise TimedOut(f"{_name(command)} gave no answer within {deadline:g} s", late.printed) from late
    except subprocess.TimeoutExpired as late:  # it closed its output and lives on
        _kill_group(process)
        raise TimedOut(f"{_name(command)} gave no answer within {deadline:g} s", stdout) from late
    except TooMuch as much:
        _kill_group(process)
        raise NoInformation(
            f"{_name(command)} printed more than {much.most >> 20} MiB: no answer is that long"
        ) from much
    except BaseException:
        _kill_group(process)
        raise
    return Reply(
        command=tuple(command),
        code=process.returncode,
        stdout=stdout,
        stderr=stderr.decode("utf-8", "replace"),
        seconds=time.monotonic() - begun,
    )


def answer(reply: Reply) -> Reply:
    """The reply, if it is one. Raises `NoInformation` on a non-zero exit or an error that Slurm printed."""
    if reply.code != 0:
        how = f"was ended by signal {-reply.code}" if reply.code < 0 else f"exited with {reply.code}"
        raise NoInformation(f"{_name(reply.command)} {how}: {reply.complaint()}")
    if reply.errors:
        raise NoInformation(f"{_name(reply.command)} reported an error: {reply.complaint()}")
    return reply


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the client and whatever it started; its pipes are closed without waiting for who else holds them."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass  # in uninterruptible sleep (a dead file system); the kernel takes it when it wakes


def _name(command: Sequence[str]) -> str:
    return os.path.basename(command[0])


def _telling(line: str) -> tuple[int, int]:
    """Slurm's last word names the cause; hints and plugin chatter say less."""
    named = ("failed:" in line) * 4 + ("Problem talking" in line) * 3 + ("load_" in line) * 2 + ("fatal" in line) * 5
    return (named, len(line))
