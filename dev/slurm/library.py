"""pyslurm, built in the tree of a newer suite: fetched by this machine's pip, compiled against the tree's Slurm."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.slurm.suites import SuiteUnavailable
from dev.slurm.system import write_commands

VERSION = "25.11.2"
PYTHON = "/opt/pyslurm/bin/python3"
"""Inside the tree."""
SHIMMED = (26, 5)
"""The release that this pyslurm can be compiled for beside its own, by Slurm's own macros for older programs."""
_BUILD = """set -eu
headers=$(mktemp -d)
mkdir "$headers/slurm"
ln -s /usr/include/slurm/*.h "$headers/slurm/"
{shim}
export SLURM_INCLUDE_DIR="$headers" SLURM_LIB_DIR="$(dirname "$(dirname "$(find /usr/lib -name libslurmfull.so)")")"
export PYSLURM_BUILD_JOBS=2 CFLAGS="-O1 {flags}"
rm -rf /opt/pyslurm
python3 -m venv /opt/pyslurm
/opt/pyslurm/bin/pip install -q --no-cache-dir --no-index --find-links {wheels} pyslurm=={version}
rm -r "$headers"
"""
_SHIM = """rm "$headers/slurm/slurm_version.h"
sed 's/define SLURM_VERSION_NUMBER.*/define SLURM_VERSION_NUMBER 0x190b00/' \\
    /usr/include/slurm/slurm_version.h >"$headers/slurm/slurm_version.h"
"""
_SHIM_FLAGS = "-DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=2999"


def build(tree: Path) -> str:
    """Path (inside the tree) of a Python that has pyslurm; built where it is not there yet. Raises `SuiteUnavailable`."""
    headers = tree / "usr/include/slurm/slurm_version.h"
    if not headers.exists():
        raise SuiteUnavailable("the tree has no headers of Slurm")
    with (tree / ".building-pyslurm").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = tree / "opt/pyslurm/built"
        if not (done.exists() and done.read_text() == VERSION):
            _build(tree, release_of(headers.read_text()))
            done.write_text(VERSION)
    return PYTHON


def release_of(header: str) -> tuple[int, int]:
    """(26, 5) of slurm_version.h."""
    found = re.search(r"SLURM_VERSION_NUMBER\s+0x([0-9a-f]{2})([0-9a-f]{2})[0-9a-f]{2}", header, re.IGNORECASE)
    if found is None:
        raise SuiteUnavailable("slurm_version.h names no release")
    return int(found[1], 16), int(found[2], 16)


def _build(tree: Path, release: tuple[int, int]) -> None:
    own = tuple(int(part) for part in VERSION.split(".")[:2])
    if release not in (own, SHIMMED):
        told = ".".join(f"{part:02}" for part in release)
        raise SuiteUnavailable(f"pyslurm {VERSION} cannot be compiled for Slurm {told}")
    shim, flags = ("", "") if release == own else (_SHIM, _SHIM_FLAGS)
    with tempfile.TemporaryDirectory(prefix="chainwatch-pyslurm-") as work:
        wheels = Path(work) / "wheels"
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(wheels)]
        _run(*pip, "--no-binary", "pyslurm", f"pyslurm=={VERSION}")
        pure = ["--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any", "--python-version=3.14"]
        _run(*pip, *pure, "setuptools", "wheel", "Cython", "packaging")
        script = Path(work) / "build.sh"
        script.write_text(_BUILD.format(shim=shim, flags=flags, wheels=wheels, version=VERSION))
        commands = Path(work) / "commands"
        write_commands(tree, commands, ["bash"], [Path(work)])
        _run(str(commands / "bash"), str(script))


def _run(*argv: str) -> None:
    # The machine's pip keeps its configuration; inside the tree its paths mean nothing.
    inside = not argv[0].startswith(sys.prefix)
    environment = {k: v for k, v in os.environ.items() if not (inside and k.startswith(("PIP_", "PYTHON")))}
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SuiteUnavailable(f"pyslurm cannot be built: {said[-1] if said else f'exit {done.returncode}'}")
