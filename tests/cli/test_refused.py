"""A refusal is said once, with the advice that works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.tools import tools

REFUSES = 'echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2; exit 1'


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    found = tools(folder, REFUSES)
    own = {"PATH": f"{found}:{os.environ['PATH']}", "CHAINWATCH_STATE": str(folder / "state"), "HOME": str(folder)}
    command = [sys.executable, "-m", "chainwatch.cli", *words]
    return subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False)


def test_a_chain_of_a_cluster_that_nobody_configured_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "toy.sbatch").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "c.yaml").write_text("chains: {x: {batch: toy.sbatch, cluster: gamma}}\n")
    done = run(tmp_path, "submit", "x", "-c", "c.yaml")
    assert (done.returncode, done.stderr) == (3, "chainwatch: x: the cluster gamma is not configured\n")


def test_a_refusal_is_said_once_with_the_advice_that_works(tmp_path: Path) -> None:
    (tmp_path / "toy.sbatch").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "c.yaml").write_text("chains: {x: {batch: toy.sbatch}}\n")
    done = run(tmp_path, "sbatch", "--partition=nope", "toy.sbatch")
    said = "Invalid partition name specified (nothing was submitted: mend it, and submit again)"
    assert (done.returncode, done.stderr) == (1, f"sbatch: error: {said}\n")
    done = run(tmp_path, "submit", "x", "-c", "c.yaml")
    assert (done.returncode, "retry" in done.stderr, "`chainwatch submit x`" in done.stderr) == (3, False, True)
    assert done.stderr.count("refused") == 1


def test_a_directory_of_logs_that_is_not_there_is_said_before_the_job_dies_of_it(tmp_path: Path) -> None:
    (tmp_path / "toy.sbatch").write_text("#!/bin/sh\n#SBATCH -o logs/%j.out\ntrue\n")
    (tmp_path / "c.yaml").write_text("chains: {x: {batch: toy.sbatch}}\n")
    for words in (["sbatch", "toy.sbatch"], ["submit", "x", "-c", "c.yaml"], ["sbatch", "-D", "sub", "toy.sbatch"]):
        where = tmp_path / ("sub/logs" if "-D" in words else "logs")
        assert run(tmp_path, *words).stderr.startswith(
            f"chainwatch: {where}, where the job's output goes, is not there"
        )
    done = run(tmp_path, "lint", "toy.sbatch")
    assert (done.returncode, f"mkdir -p {tmp_path}/logs" in done.stdout) == (1, True)
    (tmp_path / "logs").mkdir()
    assert "is not there" not in run(tmp_path, "sbatch", "toy.sbatch").stderr
    assert run(tmp_path, "lint", "toy.sbatch").returncode == 0


def test_wrong_options_of_our_own_are_said_in_our_own_words(tmp_path: Path) -> None:
    (tmp_path / "toy.sbatch").write_text("#!/bin/sh\n#CHAINWATCH --cw-mode=akt\ntrue\n")
    done = run(tmp_path, "sbatch", "--cw-done-step=ten", "toy.sbatch")
    said = "done.step: a whole number is expected, not 'ten'; mode: `observe` or `act` is expected, not 'akt'"
    assert (done.returncode, f"the chainwatch options are wrong: {said}" in done.stderr) == (2, True)


def test_the_names_of_the_configuration_are_said(tmp_path: Path) -> None:
    (tmp_path / "toy.sbatch").write_text("#!/bin/sh\n#SBATCH -J toy\ntrue\n")
    done = run(tmp_path, "init", "toy.sbatch", "-o", "c.yaml")
    assert "chainwatch submit toy -c c.yaml;" in done.stdout
    done = run(tmp_path, "submit", "my-run", "-c", "c.yaml")
    assert (done.returncode, done.stderr) == (1, "chainwatch: c.yaml has no chain named my-run: it has toy\n")
    assert "`chainwatch alert test -c c.yaml`" in (tmp_path / "c.yaml").read_text()


def test_alert_test_without_the_default_configuration_says_what_to_name(tmp_path: Path) -> None:
    (tmp_path / "chainwatch.yaml").write_text("chains: {}\n")
    done = run(tmp_path, "alert", "test")
    assert (done.returncode, "`chainwatch alert test -c chainwatch.yaml`" in done.stderr) == (2, True)
