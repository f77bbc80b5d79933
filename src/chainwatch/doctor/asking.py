"""How the doctor asks: Slurm's tools and the machine, read-only, each question within a deadline."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from chainwatch.config.models import Config
from chainwatch.slurm import NoInformation
from chainwatch.slurm.process import Reply, answer, client_environment, run

Ask = Callable[..., Reply]
"""`ask("scontrol", "show", "config")`: the answer. Raises `NoInformation`."""


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
