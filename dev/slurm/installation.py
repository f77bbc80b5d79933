"""What is installed on this machine for the private cluster, and the environment that its programs get."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

SYSTEM_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where the daemons lie; a plain user's PATH does not have them."""

PROGRAMS = (
    *("munged", "mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "slurmctld", "slurmd"),
    *("sbatch", "srun", "squeue", "sacct", "sacctmgr", "scontrol"),
)


class ClusterError(Exception):
    """The private cluster cannot be booted or does not do what was asked, in one sentence and with the log's end."""


def search_path() -> str:
    """PATH with the system's own program directories."""
    return ":".join([os.environ.get("PATH", "/usr/bin:/bin"), *SYSTEM_PATHS])


def missing_programs() -> list[str]:
    """What the private cluster needs and is not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


def user_name() -> str:
    """Name of the user who runs all of it. Raises `ClusterError` for a user id without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ClusterError(f"user id {os.getuid()} has no name in the password database, and Slurm needs one") from None


def client_environment(conf: Path) -> dict[str, str]:
    """The caller's environment without what changes Slurm's commands or their target, and with SLURM_CONF."""
    foreign = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SINFO|SCONTROL|SCANCEL|PMI|PMIX)_|SLURMD_NODENAME$")
    env = {key: value for key, value in os.environ.items() if not foreign.match(key)}
    return {**env, "SLURM_CONF": str(conf)}


def slurm_version() -> tuple[int, int]:
    """Release of the installed Slurm: (22, 5)."""
    shown = subprocess.run(
        ["slurmctld", "-V"], env={**os.environ, "PATH": search_path()}, capture_output=True, text=True, check=True
    ).stdout
    match = re.search(r"(\d+)\.(\d+)", shown)
    if match is None:
        raise ClusterError(f"slurmctld -V says {shown.strip()!r}, which has no release number")
    return int(match[1]), int(match[2])
