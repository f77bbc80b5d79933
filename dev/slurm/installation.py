"""What is installed on this machine for the private cluster, and the environment that its programs get."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.slurm.system import find

SYSTEM_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where the daemons lie; a plain user's PATH does not have them."""

PROGRAMS = (
    *("munged", "mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "slurmctld", "slurmd"),
    *("sbatch", "srun", "squeue", "sacct", "sacctmgr", "scontrol"),
)
CLIENTS = (
    "scancel",
    "sstat",
    "sinfo",
    "sdiag",
    "sprio",
    "sshare",
    "sreport",
    "salloc",
    "sattach",
    "sbcast",
    "strigger",
)
"""More commands of people and jobs, which the cluster itself does without."""


class ClusterError(Exception):
    """The private cluster cannot be booted or does not do what was asked, in one sentence and with the log's end."""


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """PATH with the system's own program directories."""
    return ":".join([environment.get("PATH", "/usr/bin:/bin"), *SYSTEM_PATHS])


def missing_programs(system: Path | None = None) -> list[str]:
    """What the private cluster needs and is not installed, on this machine or in the tree of another system."""
    if system is not None:
        return [name for name in PROGRAMS if find(system, name) is None]
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


def user_name() -> str:
    """Name of the user who runs all of it. Raises `ClusterError` for a user id without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ClusterError(f"user id {os.getuid()} has no name in the password database, and Slurm needs one") from None


def client_environment(conf: Path, commands: Path | None = None) -> dict[str, str]:
    """The caller's environment without what changes Slurm's commands or their target, and with SLURM_CONF.

    `commands` is a directory of programs that come before all others.
    """
    foreign = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SINFO|SCONTROL|SCANCEL|PMI|PMIX)_|SLURMD_NODENAME$")
    env = {key: value for key, value in os.environ.items() if not foreign.match(key)}
    if commands is not None:
        env["PATH"] = f"{commands}:{env.get('PATH', '/usr/bin:/bin')}"
    return {**env, "SLURM_CONF": str(conf)}


def slurm_version(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Release of the Slurm that this environment finds: (22, 5)."""
    major, minor = full_version(environment).split(".")[:2]
    return int(major), int(minor)


def full_version(environment: Mapping[str, str] = os.environ) -> str:
    """Release of the Slurm that this environment finds, in full: `22.05.8`. Raises `ClusterError`."""
    shown = subprocess.run(
        ["slurmctld", "-V"],
        env={**environment, "PATH": search_path(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"\d+\.\d+[.\d]*", shown.stdout)
    if match is None:
        raise ClusterError(f"slurmctld -V says {(shown.stdout or shown.stderr).strip()!r}, which has no release number")
    return match[0]
