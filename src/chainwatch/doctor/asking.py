"""How the doctor asks: Slurm's tools and the machine, read-only, each question within a deadline."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from chainwatch.config.models import Chain, Config
from chainwatch.model.plain_file import text_of
from chainwatch.slurm import NoInformation
from chainwatch.slurm.process import Reply, answer, client_environment, run

Ask = Callable[..., Reply]
"""`ask("scontrol", "show", "config")`: the answer. Raises `NoInformation`."""


Run = Callable[..., str | None]
"""`run("quota", "-w")`: what it printed, whatever its exit code; None where it is not there or hangs."""


def local(program: str, *arguments: str) -> str | None:
    """Runs a program of this machine, in the C locale and in UTC, for ten seconds at most."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lpp/mmfs/bin")
    if found is None:
        return None
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            [found, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


@dataclass(slots=True)
class Patient:
    """What is examined."""

    ask: Ask
    now: datetime
    user: str
    home: Path
    config: Config | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    slurm: dict[str, str] = field(default_factory=dict)
    """`scontrol show config`, once the cluster's check has read it."""
    site_owner: int = 0
    """Whose file the site's limits must be."""
    root: Path = Path("/")
    """Where the machine's files are; tests put others in their place."""
    run: Run = local
    """Runs a program of this machine."""
    host: str = field(default_factory=lambda: os.uname().nodename)
    scripts: dict[Path, str] = field(default_factory=dict)

    def script(self, chain: Chain) -> str:
        """The text of a chain's batch script; empty where it cannot be read."""
        if chain.batch not in self.scripts:
            try:
                self.scripts[chain.batch] = text_of(chain.batch)
            except OSError:
                self.scripts[chain.batch] = ""
        return self.scripts[chain.batch]


def asker(config: Config | None, deadline: float = 20.0) -> Ask:
    """Asks the Slurm of a configuration, in the environment in which its parsers work."""
    settings = config.slurm if config else None
    environment = client_environment(os.environ, str(settings.conf) if settings and settings.conf else None)

    def ask(program: str, *arguments: str) -> Reply:
        path = str(settings.bin) if settings and settings.bin else environment.get("PATH")
        found = shutil.which(program, path=path)
        if found is None:
            raise NoInformation(f"{program} is not on PATH")
        return answer(run([found, *arguments], environment=environment, deadline=deadline))

    return ask
