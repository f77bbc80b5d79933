"""The private cluster itself: what every test on a real Slurm stands on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dev.slurm import ClusterError, PrivateCluster, Settings
from dev.slurm.ports import PortReservation
from dev.slurm.processes import ProcessId, job_processes

REPOSITORY = Path(__file__).parents[2]


def processes_of(root: Path) -> list[str]:
    """Every living process whose command line or open files lie in the cluster's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and ProcessId.of(int(entry.name)) is not None:
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                files = [os.readlink(fd) for fd in (entry / "fd").iterdir()]
            except OSError:
                continue
            if f"{root}/" in command or any(file.startswith(f"{root}/") for file in files):
                found.append(f"{entry.name} {command}")
    return found


def test_a_job_runs_its_steps_and_reaches_accounting(cluster: PrivateCluster) -> None:
    job = cluster.sbatch("srun -n2 echo task of $SLURM_CLUSTER_NAME", "-n2")
    assert cluster.wait(job, "COMPLETED") == "COMPLETED"
    assert cluster.job_log(job).splitlines() == [f"task of {cluster.name}"] * 2
    recorded = lambda: cluster.run("sacct", "-nP", "-o", "JobID,State", "-j", str(job)).stdout.splitlines()  # noqa: E731
    wanted = [f"{job}{step}|COMPLETED" for step in ("", ".batch", ".extern", ".0")]
    cluster.until(lambda: recorded() == wanted, 10, f"accounting has {wanted}")


def test_a_higher_job_preempts_with_grace_and_only_the_step_is_told(idle_cluster: PrivateCluster) -> None:
    job = idle_cluster.sbatch(
        "srun bash -c 'trap \"echo told; sleep 1; exit 0\" TERM; echo ready; while :; do sleep 0.1; done'",
        "--qos=extra",
        "--exclusive",
        "--nodelist=n1",
    )
    idle_cluster.until(lambda: "ready" in idle_cluster.job_log(job), 20, "the step runs")
    higher = idle_cluster.sbatch("sleep 1", "--qos=normal", "--exclusive", "--nodelist=n1")
    idle_cluster.wait(higher, "COMPLETED", timeout=60)
    assert "told" in idle_cluster.job_log(job)


def test_a_stopped_controller_comes_back_with_its_jobs(idle_cluster: PrivateCluster) -> None:
    job = idle_cluster.sbatch("sleep 600")
    idle_cluster.wait(job, "RUNNING")
    idle_cluster.stop_daemon("slurmctld")
    assert "DOWN" in idle_cluster.run("scontrol", "ping", check=False).stdout
    idle_cluster.start_daemon("slurmctld")
    assert idle_cluster.state(job) == "RUNNING"


def test_mending_brings_back_what_a_test_broke(idle_cluster: PrivateCluster) -> None:
    idle_cluster.sbatch("sleep 600")
    idle_cluster.freeze("slurmdbd")
    idle_cluster.stop_daemon("munged")
    idle_cluster.mend()
    idle_cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    idle_cluster.kill_slurmd("n3")
    idle_cluster.mend()
    assert {idle_cluster.node_state(node) for node in idle_cluster.nodes} == {"idle"}
    assert idle_cluster.run("squeue", "-h").stdout == ""
    assert idle_cluster.run("sacct", "-nX").returncode == 0


@pytest.fixture
def two_nodes_elsewhere(cluster: PrivateCluster, tmp_path: Path) -> PrivateCluster:
    """A second cluster, beside the session's, booted by another process; the process is its guard's subject."""
    script = (
        "import sys, time; from pathlib import Path; from dev.slurm import PrivateCluster\n"
        "PrivateCluster.boot(Path(sys.argv[1]), nodes=2)\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    booter = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "second")], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert booter.stdout is not None
    assert booter.stdout.readline() == b"up\n"
    second = PrivateCluster.attach(tmp_path / "second")
    second.booter = booter  # type: ignore[attr-defined]
    return second


def test_two_clusters_live_side_by_side_and_one_dies_with_its_booter(
    cluster: PrivateCluster, two_nodes_elsewhere: PrivateCluster
) -> None:
    second = two_nodes_elsewhere
    assert second.name != cluster.name
    job = second.sbatch("sleep 600 & sleep 600")
    second.wait(job, "RUNNING")
    second.until(lambda: len(job_processes(second.conf, [second.root])) >= 5, 10, "the job's processes run")
    booter = second.booter  # type: ignore[attr-defined]
    booter.send_signal(signal.SIGKILL)
    booter.wait()
    booter.stdout.close()
    deadline = time.monotonic() + 30
    while processes_of(second.root) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(second.root) == []
    assert {cluster.node_state(node) for node in cluster.nodes} <= {"idle", "mixed", "completing"}


def test_ports_of_two_reservations_never_meet() -> None:
    first, second = PortReservation(), PortReservation()
    try:
        assert not set(first.take(200)) & set(second.take(200))
    finally:
        first.release()
        second.release()


def test_an_unknown_daemon_or_a_directory_without_a_cluster_is_named(cluster: PrivateCluster, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no daemon 'slurmd:n9' here; there are munged"):
        cluster.stop_daemon("slurmd:n9")
    with pytest.raises(ClusterError, match="no private cluster was ever booted"):
        PrivateCluster.attach(tmp_path)
    with pytest.raises(ClusterError, match="already runs"):
        PrivateCluster.boot(cluster.root, Settings())
