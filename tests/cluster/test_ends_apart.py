"""Ends that need a cluster of their own: memory limits, and a controller that begins to count anew."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.slurm import PrivateCluster, Settings

from chainwatch.diagnosis import diagnose
from chainwatch.model.job import Job, JobState, Source
from chainwatch.model.verdict import Cause, Evidence, LogEvidence
from chainwatch.slurm import CliBackend

MEMORY_CGROUP = (
    "TaskPlugin=task/cgroup\nProctrackType=proctrack/cgroup\nSelectTypeParameters=CR_Core_Memory\n"
    "JobAcctGatherType=jobacct_gather/linux"
)
EAT = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"


def memory_is_limitable() -> str:
    """Why cgroups cannot limit memory here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may make cgroups"
    for path in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        if path.is_dir() and os.access(path, os.W_OK) and any(path.glob("memory.*")):
            return ""
    return "no writable memory cgroup is mounted"


@pytest.fixture
def small(slurm_installed: None) -> Iterator[PrivateCluster]:
    """One node, for itself."""
    root = Path(tempfile.mkdtemp(prefix="chainwatch-test-"))
    with PrivateCluster.boot(root, Settings(nodes=1)) as cluster:
        yield cluster
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def limiting(slurm_installed: None) -> Iterator[PrivateCluster]:
    """One node that kills what takes more memory than it asked for."""
    reason = memory_is_limitable()
    if reason:
        pytest.skip(f"OUT_OF_MEMORY not tested: {reason}")
    root = Path(tempfile.mkdtemp(prefix="chainwatch-test-"))
    prefix = f"m{secrets.token_hex(3)}n"
    (root / "etc").mkdir()
    (root / "etc" / "cgroup.conf").write_text("ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n")
    try:
        with PrivateCluster.boot(root, Settings(nodes=1, node_prefix=prefix, extra_conf=MEMORY_CGROUP)) as cluster:
            yield cluster
    finally:
        shutil.rmtree(root, ignore_errors=True)
        for hierarchy in Path("/sys/fs/cgroup").glob(f"**/slurm_{prefix}1"):
            for inner, _, _ in os.walk(hierarchy, topdown=False):
                os.rmdir(inner)


def backend_of(cluster: PrivateCluster) -> CliBackend:
    return CliBackend(cluster.name, str(cluster.conf), environment=cluster.env)


def recorded(cluster: PrivateCluster, job_id: int, count: int = 1) -> list[Job]:
    """The job's attempts once accounting has `count` ended ones."""
    backend = backend_of(cluster)

    def rows() -> list[Job]:
        return [job for job in backend.accounting([job_id]) if job.state.terminal]

    cluster.until(lambda: len(rows()) >= count, 30, f"accounting knows {count} ends of job {job_id}")
    return rows()


@pytest.mark.slurm
def test_out_of_memory_shows_in_the_job_or_only_in_its_step(limiting: PrivateCluster) -> None:
    batch = limiting.sbatch(f"{EAT}; exit 0", "--mem=50")
    step = limiting.sbatch(f"srun {EAT}\nexit $?", "--mem=50")
    (end,) = recorded(limiting, batch)
    assert (end.state, str(end.exit)) == (JobState.OUT_OF_MEMORY, "0:125")
    (hidden,) = recorded(limiting, step)
    assert hidden.state in (JobState.FAILED, JobState.OUT_OF_MEMORY)
    inner = hidden.step("0")
    assert inner is not None
    assert (inner.state, str(inner.exit)) == (JobState.OUT_OF_MEMORY, "0:125")
    for job in (end, hidden):
        verdict = diagnose(Evidence(job, frozenset({Source.ACCOUNTING}), LogEvidence(readable=False)))
        assert verdict.cause is Cause.OOM_HOST


@pytest.mark.slow(20)
@pytest.mark.slurm
def test_an_id_that_an_older_job_once_had_is_another_attempt(small: PrivateCluster) -> None:
    first = small.sbatch("true")
    (older,) = recorded(small, first)
    small.stop_daemon("slurmctld")
    shutil.rmtree(small.layout.state)
    small.layout.state.mkdir()
    small.start_daemon("slurmctld")
    second = small.sbatch("exit 1")
    assert second == first, "the controller lost its state and counts from the beginning"
    rows = recorded(small, second, count=2)
    assert rows[0].attempt == older.attempt
    assert [row.state for row in rows] == [JobState.COMPLETED, JobState.FAILED]
    assert rows[0].attempt.submitted < rows[1].attempt.submitted
    (queued,) = [job for job in backend_of(small).queue(None) if job.job_id == second]
    assert queued.attempt == rows[1].attempt
