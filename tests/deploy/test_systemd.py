"""The units as systemd itself judges them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chainwatch.supervisor import units
from chainwatch.supervisor.units import Installation

HERE = Installation("/bin/true", "/etc/chainwatch/alice", "/opt/slurm/bin:/usr/bin", "/etc/slurm/slurm.conf")
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def write(where: Path, *names: str) -> list[str]:
    for name in names:
        (where / name).write_text(units.render(name, HERE))
    return [str(where / name) for name in names]


def analyze(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_COLORS": "0"}
    return subprocess.run(["systemd-analyze", *arguments], env=environment, capture_output=True, text=True, check=False)


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_system_unit(tmp_path: Path) -> None:
    [template] = write(tmp_path, "chainwatch@.service")
    instance = Path(template).with_name("chainwatch@alice.service")
    instance.write_text(Path(template).read_text())
    done = analyze(tmp_path, "verify", "--man=no", str(instance))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("names", [("chainwatch.service",), ("chainwatch-once.service", "chainwatch-once.timer")])
def test_systemd_finds_nothing_wrong_with_the_user_units(tmp_path: Path, names: tuple[str, ...]) -> None:
    done = analyze(tmp_path, "--user", "verify", "--man=no", *write(tmp_path, *names))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_a_spelling_mistake_would_be_found(tmp_path: Path) -> None:
    [unit] = write(tmp_path, "chainwatch@.service")
    Path(unit).write_text(Path(unit).read_text().replace("WatchdogSec", "WachtdogSec"))
    assert "WachtdogSec" in analyze(tmp_path, "verify", "--man=no", unit).stderr


@needs_systemd
def test_the_system_unit_is_exposed_by_at_most_2_5(tmp_path: Path) -> None:
    [unit] = write(tmp_path, "chainwatch@.service")
    done = analyze(tmp_path, "security", "--offline=true", "--threshold=25", unit)
    score = re.search(r"exposure level for \S+: (\d+\.\d+)", done.stdout)
    assert score, done.stderr
    assert float(score[1]) <= 2.5
    assert done.returncode == 0


def test_a_unit_has_the_paths_of_its_installation() -> None:
    text = units.render("chainwatch@.service", HERE)
    assert "ExecStart=/bin/true run /etc/chainwatch/alice\n" in text
    assert (
        'Environment="PATH=/opt/slurm/bin:/usr/bin"\nEnvironment="SLURM_CONF=/etc/slurm/slurm.conf"\nExecStart' in text
    )
    once = units.render("chainwatch-once.service", HERE)
    assert "ExecStart=/bin/true run --once /etc/chainwatch/alice\n" in once
    assert units.EXECUTABLE not in text + once


def test_a_path_cannot_smuggle_a_command_or_a_specifier() -> None:
    assert "/a%%h/$$x" in units.render("chainwatch.service", Installation("/a%h/$x"))
    for path in ("/a b", "/a\nExecStartPre=/bin/evil", '/a"', "/a;b"):
        with pytest.raises(ValueError, match="cannot hold the path"):
            units.render("chainwatch.service", Installation(path))


def test_the_daemons_virtual_environment_stays_out_of_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slurm = tmp_path / "slurm"
    slurm.mkdir()
    (slurm / "sbatch").touch(0o755)
    venv = tmp_path / "venv"
    venv.mkdir()
    monkeypatch.setenv("PATH", f"{venv}:{slurm}")
    assert str(slurm) in units.found().path
    assert str(venv) not in units.found().path


def test_the_scrontab_line_calls_one_pass() -> None:
    text = (Path(__file__).parents[2] / "deploy" / "scrontab").read_text()
    assert re.search(r"^\*/5 \* \* \* \* chainwatch run --once ", text, re.M)
