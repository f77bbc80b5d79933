"""What real clusters of three releases printed, read back: every ending, waiting jobs, arrays, het jobs, nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.model.job import ExitCode, Job, JobState
from chainwatch.slurm.sacct import parse as parse_sacct
from chainwatch.slurm.scontrol import parse_jobs, parse_nodes
from tests.slurm.fake import DATA

RELEASES = ("22.05", "24.11", "26.05")


def accounting(release: str) -> dict[str, list[Job]]:
    """Attempts by job name, oldest first."""
    header, *lines = (DATA / f"sacct-{release}.tsv").read_text().splitlines()
    mark = "\x1f|"
    text = "".join(line.replace("\t", mark) + mark + "\n" for line in (header, *lines))
    found: dict[str, list[Job]] = {}
    for job in parse_sacct(text, mark, header.split("\t"), "lab"):
        found.setdefault(job.name, []).append(job)
    return found


def controller(release: str, what: str = "jobs-ended") -> dict[str, list[Job]]:
    """Jobs by name, as scontrol showed them."""
    found: dict[str, list[Job]] = {}
    for job in parse_jobs((DATA / f"{what}-{release}.txt").read_text(), "lab"):
        found.setdefault(job.name, []).append(job)
    return found


def _code(text: str) -> ExitCode:
    code, _, signal = text.partition(":")
    return ExitCode(int(code), int(signal))


ENDINGS = [
    # name, state, exit code in 22.05, 24.11 and 26.05
    ("c-exit1", "FAILED", "1:0", "1:0", "1:0"),
    ("c-sigkill-self", "FAILED", "0:9", "0:9", "0:9"),
    ("c-segv-self", "FAILED", "0:11", "0:11", "0:11"),
    ("c-exit137", "FAILED", "9:0", "9:0", "137:0"),
    ("c-step-segv", "FAILED", "11:0", "11:0", "139:0"),
    ("c-step-exit3-batch0", "COMPLETED", "0:0", "0:0", "0:0"),
    ("c-killonbad", "FAILED", "15:0", "15:0", "143:0"),
    ("c-badshell", "FAILED", "2:0", "2:0", "2:0"),
    ("c-timeout", "TIMEOUT", "0:0", "0:0", "0:0"),
    ("c-timeout-trap0", "TIMEOUT", "0:0", "0:0", "0:0"),
    ("c-timeout-trap1", "TIMEOUT", "0:0", "0:0", "0:0"),
    ("c-cancel-run", "CANCELLED", "0:0", "0:0", "0:0"),
    ("c-cancel-trap0", "CANCELLED", "0:0", "0:0", "0:0"),
]


@pytest.mark.parametrize("index", range(3), ids=RELEASES)
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending[0])
def test_every_ending_is_read_from_accounting(ending: tuple[str, ...], index: int) -> None:
    name, state, *codes = ending
    job = accounting(RELEASES[index])[name][-1]
    assert (job.state, job.exit) == (JobState[state], _code(codes[index]))
    assert job.end is not None
    assert job.step("batch") is not None


@pytest.mark.parametrize("release", RELEASES)
def test_the_failed_step_of_a_completed_job_is_seen(release: str) -> None:
    job = accounting(release)["c-step-exit3-batch0"][-1]
    step, killed = job.step("1"), job.step("2")
    assert step is not None
    assert killed is not None
    assert (step.state, step.exit, job.derived_exit) == (JobState.FAILED, ExitCode(3), ExitCode(3))
    assert (killed.state, killed.exit) == (JobState.CANCELLED, ExitCode(0, 9))


@pytest.mark.parametrize("release", RELEASES)
def test_a_cancellation_by_root_names_uid_0(release: str) -> None:
    job = accounting(release)["c-cancel-run"][-1]
    assert (job.state, job.cancelled_by, job.raw_state) == (JobState.CANCELLED, 0, "CANCELLED by 0")


@pytest.mark.parametrize("release", RELEASES)
def test_a_requeued_job_has_two_attempts_and_the_steps_belong_to_the_first(release: str) -> None:
    old, new = accounting(release)["c-requeue"][:2]
    assert old.job_id == new.job_id
    assert old.attempt.submitted < new.attempt.submitted
    assert old.state is JobState.REQUEUED
    assert old.step("batch") is not None
    assert new.steps == ()


@pytest.mark.parametrize("release", RELEASES)
def test_raw_ids_and_task_numbers_of_an_array(release: str) -> None:
    tasks = accounting(release)["c-array-small"]
    assert {job.array_task for job in tasks} == {"1", "2", "5"}
    assert len({job.job_id for job in tasks}) == 3
    assert len({job.array_job_id for job in tasks}) == 1


@pytest.mark.parametrize("release", RELEASES)
def test_het_components_know_their_leader(release: str) -> None:
    parts = accounting(release)["c-het"]
    assert len(parts) == 2
    assert {part.het_job_id for part in parts} == {parts[0].job_id}
    assert [part.shown_id.rpartition("+")[2] for part in parts] == ["0", "1"]


@pytest.mark.parametrize("release", RELEASES)
def test_no_row_has_an_unknown_state(release: str) -> None:
    jobs = [job for attempts in accounting(release).values() for job in attempts]
    assert len(jobs) > 40
    assert JobState.UNKNOWN not in {job.state for job in jobs}
    assert JobState.UNKNOWN not in {step.state for job in jobs for step in job.steps}


@pytest.mark.parametrize("release", RELEASES)
def test_the_controllers_records_of_ended_jobs_are_whole(release: str) -> None:
    jobs = [job for same in controller(release).values() for job in same]
    ended = [job for job in jobs if job.state.terminal]
    assert len(ended) >= 5
    assert all(job.exit is not None and job.end is not None for job in ended)
    assert all(job.exit is None and job.end is None for job in jobs if not job.state.terminal)
    for job in jobs:
        assert job.user == "root"
        assert job.directory
        assert job.command.startswith("/") or job.name == "cw-tag"  # that one was given by --wrap
        assert job.qos in {"normal", "extra"}
        assert job.time_limit is not None


@pytest.mark.parametrize("release", RELEASES)
def test_waiting_jobs_say_what_they_wait_for(release: str) -> None:
    jobs = controller(release, "jobs-waiting")
    assert jobs["c-held"][-1].held
    assert jobs["c-held-admin"][-1].reason == "JobHeldAdmin"
    assert jobs["c-held-admin"][-1].held
    never = jobs["c-depnever"][-1]
    assert never.reason == "DependencyNeverSatisfied"
    assert never.dependency.startswith("afterok:")
    assert not never.held
    begin = jobs["c-begin"][-1]
    assert (begin.reason, begin.start, begin.state) == ("BeginTime", None, JobState.PENDING)


@pytest.mark.parametrize("release", RELEASES)
def test_the_rest_of_an_array_has_its_limit(release: str) -> None:
    rest = next(job for job in controller(release, "jobs-waiting")["c-array"] if job.state is JobState.PENDING)
    assert (rest.array_limit, rest.array_task) == (2, "[3-9]")


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_in_its_grace_still_runs_and_has_a_preemption_time(release: str) -> None:
    ((job,),) = controller(release, "job-in-grace").values()
    assert job.state is JobState.RUNNING
    assert job.preempted_at is not None
    assert job.start is not None
    assert job.start < job.preempted_at
    assert (job.end, job.exit) == (None, None)
    assert job.stdout.endswith("_4294967294.out")


def test_the_submit_line_is_shown_from_25_11_on() -> None:
    ((new,),) = controller("26.05", "job-in-grace").values()
    ((old,),) = controller("22.05", "job-in-grace").values()
    assert new.submit_line.startswith("sbatch --parsable")
    assert old.submit_line == ""


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_of_every_release(release: str) -> None:
    nodes = {node.name: node for node in parse_nodes((DATA / f"nodes-{release}.txt").read_text())}
    assert {"n1", "n2", "n3"} <= set(nodes)
    assert all(node.usable and node.booted_at and node.partitions == ("main",) for node in nodes.values())


def test_nodes_on_one_line_with_a_blank_in_what_they_run() -> None:
    nodes = parse_nodes((DATA / "nodes-exporter.txt").read_text())
    assert len(nodes) == 20
    assert {node.state for node in nodes} == {"mixed", "idle"}
    assert nodes[0].partitions == ("cpu", "debug", "high")
    assert all("dynamic_norm" in node.flags for node in nodes)


def test_a_running_record_of_an_array_and_a_job_of_many_nodes() -> None:
    rest, task = parse_jobs((DATA / "jobs-array-gcm.txt").read_text(), "lab")
    assert (rest.array_job_id, rest.array_task, rest.array_limit) == (30185, "[28-59]", 100)
    assert (task.array_job_id, task.array_task, task.shown_id) == (31185, "128", "31185_128")
    assert rest.gpus == 8
    (wide,) = parse_jobs((DATA / "job-many-nodes-gcm.txt").read_text(), "lab")
    assert len(wide.nodes) == 8
    assert wide.nodes[0] == "node1433"
    assert (wide.gpus, wide.cpus) == (64, 2048)
    assert wide.time_limit == timedelta(days=7)
    assert wide.start == datetime(2024, 11, 12, 17, 52, 38, tzinfo=UTC)
