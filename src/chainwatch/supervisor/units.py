"""The systemd units of this installation: the files of `deploy/systemd` with its own paths filled in."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

EXECUTABLE = "/usr/bin/chainwatch"
CONFIG = ".config/chainwatch"
SYSTEM, USER = Path("/etc/systemd/system"), Path("~/.config/systemd/user")


@dataclass(frozen=True, slots=True)
class Installation:
    """What a unit must know of where chainwatch and Slurm are."""

    executable: str
    config: str = CONFIG
    """Relative to the home directory, or absolute."""
    path: str = ""
    """PATH of the service: Slurm's tools are often in a directory that systemd does not know."""
    slurm_conf: str = ""


def found(config: str = CONFIG) -> Installation:
    """This installation: the chainwatch that runs, and the Slurm that it finds.

    Of PATH only the directories of the tools are taken: a virtual environment's would leak into jobs.
    """
    beside = Path(sys.executable).with_name("chainwatch")
    executable = str(beside) if beside.exists() else shutil.which("chainwatch") or EXECUTABLE
    tools = [shutil.which(tool) for tool in ("sbatch", "squeue", "git")]
    own = [str(Path(tool).parent) for tool in tools if tool]
    usual = ["/usr/local/bin", "/usr/bin", "/bin"]
    return Installation(executable, config, ":".join(dict.fromkeys(own + usual)), os.environ.get("SLURM_CONF", ""))


def names(*, user: bool, once: bool) -> tuple[str, ...]:
    """The unit files of a way to run: a daemon of the system or the user, or the timer."""
    if once:
        return ("chainwatch-once.service", "chainwatch-once.timer")
    return ("chainwatch.service",) if user else ("chainwatch@.service",)


def template(name: str) -> str:
    """A file of `deploy/systemd`, from the wheel or from a checkout."""
    for place in (files("chainwatch").joinpath("deploy"), Path(__file__).parents[3] / "deploy"):
        text = place.joinpath("systemd", name)
        if text.is_file():
            return text.read_text()
    raise FileNotFoundError(f"the unit {name} is missing from this installation; install chainwatch again")


def render(name: str, here: Installation) -> str:
    """The unit with the paths of this installation. Raises ValueError for a path that a unit cannot hold."""
    text = template(name)
    command = _word(here.executable)
    text = text.replace(f"ExecStart={EXECUTABLE} ", f"ExecStart={command} ").replace(
        f" {CONFIG}\n", f" {_word(here.config)}\n"
    )
    more = [f'Environment="PATH={_word(here.path)}"'] if here.path else []
    if here.slurm_conf:
        more.append(f'Environment="SLURM_CONF={_word(here.slurm_conf)}"')
    return text.replace("ExecStart=", "\n".join([*more, "ExecStart="]), 1)


def _word(path: str) -> str:
    """Escaped for a unit (systemd.service(5), command lines)."""
    if any(c.isspace() or not c.isprintable() or c in "\"'\\;" for c in path):
        raise ValueError(f"a unit cannot hold the path {path!r}: move it to one without spaces and quotes")
    return path.replace("%", "%%").replace("$", "$$")
