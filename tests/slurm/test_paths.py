"""File name patterns of logs, filled in as slurmstepd does it."""

from __future__ import annotations

import glob
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.slurm.paths import LogPaths, expand, expand_to_glob, log_paths

JOB = Job(
    AttemptId("lab", 52, datetime(2026, 11, 29, tzinfo=UTC)),
    "52",
    JobState.RUNNING,
    Source.QUEUE,
    name="train",
    user="ann",
    directory="/home/ann/run",
    nodes=("n2.site", "n3.site"),
)
TASK = replace(JOB, shown_id="40_7", array_job_id=40, array_task="7")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("out-%j.log", "/home/ann/run/out-52.log"),
        ("/logs/%x-%u-%J.log", "/logs/train-ann-52.log"),
        ("%5j.log", "/home/ann/run/00052.log"),
        ("%12j.log", "/home/ann/run/0000000052.log"),
        ("%N-%n-%t-%s.log", "/home/ann/run/n2-0-0-batch.log"),
        ("100%%-%j.log", "/home/ann/run/100%-52.log"),
        ("%%j.log", "/home/ann/run/%j.log"),
        ("%A_%a.log", "/home/ann/run/52_4294967294.log"),
        ("%3x.log", "/home/ann/run/train.log"),
        ("%q.log", "/home/ann/run/%q.log"),
        ("%", "/home/ann/run/%"),
        (r"back\%j.log", "/home/ann/run/back%j.log"),
        (r"c\\%j.log", "/home/ann/run/c\\%j.log"),
        ("sub/%j.log", "/home/ann/run/sub/52.log"),
    ],
)
def test_patterns_of_a_plain_job(pattern: str, path: str) -> None:
    assert expand(pattern, JOB) == path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("%A_%a.log", "/home/ann/run/40_7.log"),
        ("%A-%4a-%j.log", "/home/ann/run/40-0007-52.log"),
        ("%A_%b.log", "/home/ann/run/40_7.log"),
    ],
)
def test_patterns_of_an_array_task(pattern: str, path: str) -> None:
    assert expand(pattern, TASK) == path


def test_without_a_pattern_slurms_own_names_are_taken() -> None:
    assert log_paths(JOB).distinct == ("/home/ann/run/slurm-52.out",)
    assert log_paths(TASK).distinct == ("/home/ann/run/slurm-40_7.out",)
    assert log_paths(replace(JOB, directory="")).distinct == ()


def test_stderr_goes_where_stdout_goes_unless_it_has_its_own_place() -> None:
    assert log_paths(replace(JOB, stdout="%j.out")).distinct == ("/home/ann/run/52.out",)
    apart = log_paths(replace(JOB, stdout="%j.out", stderr="%j.err"))
    assert apart == LogPaths("/home/ann/run/52.out", "/home/ann/run/52.err")
    assert log_paths(replace(JOB, stdout="/dev/null", stderr="%j.err")).distinct == ("/home/ann/run/52.err",)


def test_what_is_already_filled_in_stays() -> None:
    assert expand("/logs/out-52_4294967294.log", JOB) == "/logs/out-52_4294967294.log"


def test_a_glob_finds_the_logs_of_all_tasks_and_nodes(tmp_path: Path) -> None:
    job = replace(JOB, name="we[i]rd*", directory=str(tmp_path))
    names = ["we[i]rd*-52-0.log", "we[i]rd*-52-1.log", "wei-52-0.log", "we[i]rd*-53-0.log"]
    for name in names:
        (tmp_path / name).touch()
    found = {Path(path).name for path in glob.glob(expand_to_glob("%x-%j-%t.log", job))}
    assert found == set(names[:2])
    assert expand_to_glob("/l/%N/%n-%s-%5j.log", job) == "/l/*/*-*-00052.log"
