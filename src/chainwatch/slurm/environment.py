"""The environment that a job gets is a contract: nothing of the daemon leaks into it.

A job that the service starts sees what it sees when it is started from a shell. So the environment of each sbatch call
is made here, from the one captured when the chain was first submitted, from a login shell, from a file, or from next to
nothing, and cleared of whatever belongs to a daemon, to a unit of systemd, or to a job inside of which it was captured.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.process import Runner, run

_PREFIXES = (
    # A `SBATCH_QOS` or `SLURM_CPUS_PER_TASK` of the place of capture would change the job.
    "SBATCH_", "SLURM_", "SLURMD_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_", "SCONTROL_", "SCANCEL_",
    "SACCTMGR_", "SPRIO_", "SSHARE_", "SDIAG_", "STRIGGER_",
    # MPI's place within another job.
    "PMI_", "PMIX_", "PMI2_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "HYDRA_",
    # What pytest and venv leave, and chainwatch's own settings.
    "PYTEST_", "_OLD_VIRTUAL_", "CHAINWATCH_",
)  # fmt: skip
_NAMES = frozenset(
    {
        # systemd tells its services about themselves.
        "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS",
        "LISTEN_FDNAMES", "SYSTEMD_EXEC_PID", "MAINPID", "MANAGERPID", "SYSTEMD_NSS_BYPASS_BUS",
        "CREDENTIALS_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CACHE_DIRECTORY",
        "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY",
        "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "REMOTE_ADDR", "REMOTE_PORT", "FDSTORE", "TRIGGER_UNIT",
        # A shell's notes about itself.
        "_", "SHLVL", "OLDPWD", "PWD",
        # A Python that was told to live elsewhere.
        "PYTHONHOME", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__",
    }
)  # fmt: skip
_KEPT = frozenset({"SLURM_CONF"})
_OF_A_JOB = frozenset(
    {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}
)
"""Set by Slurm inside a job; taken away where the capture was made inside one."""

_NAME = re.compile(r"^[^=\0]+$")
_MARK = b"=== environment of the login shell ==="


class EnvironmentUnusable(Exception):
    """The environment asked for cannot be had: one sentence for people."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whose jobs they are (`pwd.struct_passwd`, as far as it is needed)."""

    name: str
    home: str
    shell: str = "/bin/sh"


def job_environment(
    captured: Mapping[str, str], *, conf: str | None = None, virtual_environment: str | None = None
) -> tuple[tuple[str, str], ...]:
    """The complete environment of an sbatch call, made of a captured one.

    Parameters
    ----------
    captured
        All variables of the shell (or file, or login) that the job's environment comes from.
    conf
        Path of the cluster's slurm.conf; None keeps the captured SLURM_CONF, if there is one.
    virtual_environment
        Root of the daemon's own virtual environment (see `own_virtual_environment`): it is taken off PATH and out of
        VIRTUAL_ENV. None: leave both alone.
    """
    inside_a_job = "SLURM_JOB_ID" in captured
    kept = {
        name: value
        for name, value in captured.items()
        if _NAME.match(name)
        and "\0" not in value
        and (name in _KEPT or not (name.startswith(_PREFIXES) or name in _NAMES))
        and not (inside_a_job and name in _OF_A_JOB)
    }
    if virtual_environment:
        _leave(kept, virtual_environment)
    if conf:
        kept["SLURM_CONF"] = conf
    return tuple(sorted(kept.items()))


def own_virtual_environment() -> str | None:
    """Root of the virtual environment that this Python runs in; None where it is none."""
    return sys.prefix if sys.prefix != sys.base_prefix else None


def clean(account: Account) -> dict[str, str]:
    """Next to nothing: who and where one is, and the system's own PATH."""
    return {
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }


def from_file(text: str) -> dict[str, str]:
    """The variables of a file with one NAME=value a line; blank lines and lines with `#` in front are passed over.

    One pair of quotes around a value is taken off, `export` in front of a name too; nothing is expanded. Raises
    `EnvironmentUnusable` with the line's number.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise EnvironmentUnusable(f"line {number} is no NAME=value: {line[:60]}")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name] = value
    return found


def of_login_shell(account: Account, *, deadline: float = 30.0, runner: Runner = run) -> dict[str, str]:
    """What a login shell of this account has, whatever its profile prints.

    Raises `EnvironmentUnusable` where the shell does not answer in time or gives nothing.
    """
    show = f"printf '%s\\n' '{_MARK.decode()}'; exec env -0"
    try:
        reply = runner(
            [account.shell, "-l", "-c", show],
            environment=clean(account),
            deadline=deadline,
            cwd=_existing(account.home),
        )
    except NoInformation as problem:
        raise EnvironmentUnusable(
            f"the login shell {account.shell} of {account.name} gave no environment: {problem}"
        ) from problem
    _, mark, listed = reply.stdout.rpartition(_MARK + b"\n")
    pairs = (entry.partition(b"=") for entry in listed.split(b"\0") if b"=" in entry)
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    if not mark or not found:
        raise EnvironmentUnusable(f"the login shell {account.shell} of {account.name} gave no environment")
    return found


def _leave(environment: dict[str, str], root: str) -> None:
    """Take the virtual environment `root` out, as its `deactivate` would."""
    root = root.rstrip("/")
    active = environment.get("VIRTUAL_ENV", "").rstrip("/")
    if active == root:
        environment.pop("VIRTUAL_ENV", None)
        environment.pop("VIRTUAL_ENV_PROMPT", None)
    if "PATH" in environment:
        own = {f"{root}/bin", f"{root}/bin/"}
        environment["PATH"] = ":".join(part for part in environment["PATH"].split(":") if part not in own)


def _existing(directory: str) -> str | None:
    return directory if os.path.isdir(directory) else None
