"""The pyslurm backend: its worker may be killed, frozen, leak or crash, and each poll still gets an answer in time."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.model.job import ExitCode, JobState, Source
from chainwatch.slurm import Backend, NoInformation
from chainwatch.slurm.pyslurm import CallFailed, PyslurmBackend, Worker, WorkerFailed, backend
from chainwatch.slurm.pyslurm.backend import FAILURES, release
from chainwatch.slurm.pyslurm.rows import dependency
from tests.slurm import fake

DOUBLE = Path(__file__).parent / "double"
DEADLINE = 8.0
"""For a whole poll; half of it for the library. Long enough for a Python to start on a busy machine."""


class Lab:
    """A cluster `lab` by pyslurm's double and by made-up tools that know job 8."""

    def __init__(self, home: Path, *, insist: bool = False, **limits: int) -> None:
        self.script = home / "double.json"
        self.says()
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(DOUBLE), "PYSLURM_DOUBLE": str(self.script)}
        self.worker = Worker(sys.executable, environment, **limits)
        self.cli, self.tools = fake.backend(squeue=fake.squeue_says({"JobID": "8", "JobArrayID": "8"}))
        self.said: list[str] = []
        self.now = 0.0
        self.backend = PyslurmBackend(
            self.cli, self.worker, deadline=DEADLINE, insist=insist, say=self.said.append, monotonic=self._clock
        )

    def says(self, **script: Any) -> None:
        """What the library's double does from now on."""
        self.script.write_text(json.dumps({"jobs": [{}], **script}))

    def ids(self) -> list[int]:
        """One poll: 7 is what the library knows, 8 what the tools do."""
        return [job.job_id for job in self.backend.queue(None)]

    def _clock(self) -> float:
        return self.now + time.monotonic()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.backend.close()


# -- trouble ----------------------------------------------------------------------------------------------------------


def test_a_well_worker_answers_and_the_tools_are_left_alone(lab: Lab) -> None:
    assert lab.ids() == lab.ids() == [7]
    assert (lab.worker.started, lab.tools.calls, lab.said, lab.backend.stands_in) == (1, [], [], "")
    lab.says(nodes=[{}, {"name": "n2", "state": "IDLE"}])
    assert [(node.name, node.usable) for node in lab.backend.nodes(["n1"])] == [("n1", False)]
    assert lab.backend.nodes()[1].usable


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("segfault", "SIGSEGV"),
        ("exit", "exit code 1"),
        ("error", "Unable to contact slurm controller"),
    ],
)
def test_a_call_that_crashes_or_fails_is_said_and_the_tools_step_in(lab: Lab, then: str, told: str) -> None:
    assert lab.ids() == [7]
    lab.says(then=then)
    assert lab.ids() == [8]
    assert told in lab.said[-1]
    assert "the command line tools step in" in lab.backend.stands_in
    lab.says()
    assert lab.ids() == [7]
    assert "answers again" in lab.said[-1]
    assert lab.backend.stands_in == ""


def test_a_worker_that_is_killed_between_two_polls_is_replaced_without_a_word(lab: Lab) -> None:
    assert lab.ids() == [7]
    os.kill(lab.worker.pid, signal.SIGKILL)
    lab.worker._process.wait()  # type: ignore[union-attr]
    assert lab.ids() == [7]
    assert (lab.worker.started, lab.said) == (2, [])


@pytest.mark.parametrize("then", ["freeze", "sleep"])
def test_a_frozen_worker_is_killed_and_the_poll_answered_within_its_deadline(tmp_path: Path, then: str) -> None:
    lab = Lab(tmp_path)
    assert lab.ids() == [7]
    lab.backend._deadline = 2.0
    old = lab.worker.pid
    lab.says(then=then)
    begun = time.monotonic()
    assert lab.ids() == [8]
    assert time.monotonic() - begun < 2.0
    assert "did not answer queue within" in lab.said[-1]
    assert not Path(f"/proc/{old}").exists()
    lab.backend.close()


def test_a_worker_that_leaks_is_replaced_before_it_is_large(tmp_path: Path) -> None:
    lab = Lab(tmp_path, most_memory=150_000_000)
    lab.says(then="leak")
    sizes = []
    for _ in range(8):
        assert lab.ids() == [7]
        sizes.append(lab.worker.memory)
    assert max(sizes) < 150_000_000 + 60_000_000
    assert lab.worker.started > 1
    lab.backend.close()


def test_a_worker_is_replaced_after_so_many_calls(tmp_path: Path) -> None:
    lab = Lab(tmp_path, most_calls=3)
    for _ in range(6):
        assert lab.ids() == [7]
    assert lab.worker.started >= 2
    lab.backend.close()


def test_what_the_library_prints_is_no_answer(lab: Lab) -> None:
    lab.says(then="print")
    assert lab.ids() == [7]


def test_a_library_that_keeps_failing_is_left_alone_for_a_while(lab: Lab) -> None:
    lab.says(then="exit")
    for _ in range(FAILURES + 2):
        assert lab.ids() == [8]
    assert len(lab.said) == FAILURES
    assert "for the next 10 minutes" in lab.said[-1]
    lab.says()
    assert lab.ids() == [8]
    lab.now += backend.REST
    assert lab.ids() == [7]


def test_where_the_tools_fail_too_nothing_is_made_up(lab: Lab) -> None:
    lab.says(then="exit")
    lab.tools.answers = {
        "squeue": fake.reply(stderr="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    }
    with pytest.raises(NoInformation):
        lab.backend.queue(None)


def test_only_calls_of_the_list_are_made(lab: Lab) -> None:
    with pytest.raises(CallFailed, match="KeyError"):
        lab.worker.call("get_resource_layout_per_node", deadline=DEADLINE)
    assert lab.ids() == [7]


def test_a_python_that_is_not_there_or_has_no_pyslurm_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="cannot be started"):
        Worker(str(tmp_path / "python"), {}).call("version", deadline=DEADLINE)
    with pytest.raises(WorkerFailed, match="No module named 'pyslurm'"):
        Worker(sys.executable, {"PATH": "/usr/bin"}).call("version", deadline=DEADLINE)


# -- which releases ---------------------------------------------------------------------------------------------------


def test_releases_are_compared_by_year_and_month() -> None:
    assert release("22.05.8") == release("22.5.0") == (22, 5)
    assert release("26.05.5") != release("25.11.2")


def test_auto_takes_only_a_library_of_the_clusters_release(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.says(slurm="25.11.4")
    assert lab.ids() == lab.ids() == [8]
    assert len(lab.said) == 1
    assert "pyslurm 26.5.1 was made for another release than the cluster's 25.11.4" in lab.said[0]
    lab.backend.close()


def test_who_insists_is_warned_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, insist=True)
    lab.says(slurm="25.11.4")
    assert lab.ids() == lab.ids() == [7]
    assert len(lab.said) == 1
    lab.backend.close()


def test_a_library_that_speaks_to_another_cluster_is_not_used(tmp_path: Path) -> None:
    lab = Lab(tmp_path, insist=True)
    lab.says(cluster="production")
    assert lab.ids() == [8]
    assert "speaks to the cluster production" in lab.said[0]
    lab.backend.close()


# -- what a row means -------------------------------------------------------------------------------------------------


def test_a_poll_in_which_a_job_has_ended_is_answered_by_squeue_once(lab: Lab) -> None:
    ended = {"JobID": "7", "State": "FAILED", "exit_code": "137:0", "EndTime": "1795976700"}
    lab.tools.answers = {"squeue": fake.squeue_says(ended)}
    lab.says(jobs=[{"state": "FAILED"}])
    for _ in range(3):
        (job,) = lab.backend.queue(None)
        assert job.exit == ExitCode(137)
    assert len(lab.tools.calls) == 1
    assert lab.said == []


def test_a_job_has_the_same_fields_as_from_squeue(lab: Lab) -> None:
    lab.says(jobs=[{"standard_output": "/home/ann/slurm-7.out"}])
    (job,) = lab.backend.queue("root")
    lab.tools.answers = {
        "squeue": fake.squeue_says({"UserName": "root", "StdOut": "/home/ann/slurm-7.out", "StdErr": ""})
    }
    (shown,) = lab.cli.queue("root")
    different = {name for name in job.__dataclass_fields__ if getattr(job, name) != getattr(shown, name)}
    assert different <= {"submit_line"}
    assert job.source is Source.QUEUE
    assert (job.start, job.time_limit) == (datetime.fromtimestamp(1795973100, UTC), timedelta(hours=1))


def test_tasks_and_components_are_shown_as_people_type_them(lab: Lab) -> None:
    rest = {"id": 30, "state": "PENDING", "array_id": 30, "array_tasks_waiting": "3-9", "array_tasks_parallel": 2}
    zero = {"id": 31, "array_id": 30, "array_task_id": None}
    part = {"id": 33, "heterogeneous_id": 32, "heterogeneous_offset": 1}
    leader = {"id": 32, "heterogeneous_id": 32, "heterogeneous_offset": None}
    lab.says(jobs=[rest, zero, part, leader])
    jobs = lab.backend.queue(None)
    assert [job.shown_id for job in jobs] == ["30_[3-9]", "30_0", "32+1", "32+0"]
    assert (jobs[0].array_task, jobs[0].array_limit, jobs[0].start, jobs[0].state) == (
        "[3-9]",
        2,
        None,
        JobState.PENDING,
    )
    assert jobs[2].het_job_id == 32


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (None, ""),
        ({"afterany": [7, "8(failed)"], "singleton": True, "satisfy": "all"}, "afterany:7,afterany:8(failed),singleton"),
        ({"afterok": [7], "afternotok": [8], "satisfy": "any"}, "afterok:7?afternotok:8"),
    ],
)  # fmt: skip
def test_a_dependency_reads_as_slurm_writes_it(parts: object, text: str) -> None:
    assert dependency(parts) == text


def test_a_row_that_is_not_whole_is_no_answer(lab: Lab) -> None:
    lab.says(jobs=[{"submit_time": None}])
    assert lab.ids() == [8]
    assert "without id or submit time" in lab.said[-1]


def test_it_is_a_backend() -> None:
    def needs(backend: Backend) -> Backend:
        return backend

    assert all(hasattr(PyslurmBackend, name) for name in dir(Backend) if not name.startswith("_") and name != "name")
