"""The installer leaves alone what it did not bring."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "dev" / "install"


def install(what: str, record: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the installer against a record of its own; without a terminal, as in CI."""
    kept = {name: value for name, value in os.environ.items() if name != "EXISTING_SLURM"}
    return subprocess.run(
        [INSTALL, what],
        env={**kept, "CHAINWATCH_DEV_RECORD": str(record), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user is never refused: nothing could be harmed")
def test_root_is_refused_where_a_slurm_is_that_it_did_not_install(slurm_installed: None, tmp_path: Path) -> None:
    refused = install("slurm", tmp_path / "nothing-installed-by-us")
    assert refused.returncode == 1
    assert "a Slurm or munge is here that this did not install" in refused.stderr
    assert "munged" in refused.stderr
    assert "EXISTING_SLURM=use" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_installed_programs_are_used_where_a_person_says_so(slurm_installed: None, tmp_path: Path) -> None:
    used = install("slurm", tmp_path / "nothing-installed-by-us", EXISTING_SLURM="use")
    assert (used.returncode, used.stderr) == (0, "")


def test_a_python_that_is_named_and_good_is_taken(tmp_path: Path) -> None:
    found = install("python", tmp_path / "record")
    assert found.returncode == 0
    version = subprocess.run([found.stdout.strip(), "-V"], capture_output=True, text=True).stdout
    assert tuple(map(int, version.split()[1].split(".")[:2])) >= (3, 11)


def test_an_unknown_word_is_answered_with_the_usage(tmp_path: Path) -> None:
    wrong = install("everything", tmp_path / "record")
    assert wrong.returncode == 1
    assert "usage: dev/install" in wrong.stderr
