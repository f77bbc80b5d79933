"""What only a real Slurm can show, beyond the contract."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dev.slurm import PrivateCluster
from dev.slurm.stage import RealStage

from chainwatch.model.job import ExitCode, Job, JobState
from chainwatch.slurm import CliBackend, NoInformation, Submission
from chainwatch.slurm.contract import Can, Program, submission
from chainwatch.slurm.contract.look import ended, in_queue, recorded, under_way
from chainwatch.slurm.environment import job_environment
from chainwatch.slurm.paths import log_paths

pytestmark = pytest.mark.slurm


def run_text(stage: RealStage, text: str, *options: str) -> int:
    """Submit a bash script given as text."""
    path = Path(stage.directory) / f"text{time.monotonic_ns()}.sh"
    path.write_text(f"#!/bin/bash\n{text}\n")
    return stage.backend.submit(
        Submission(str(path), options=options, directory=stage.directory, environment=stage.environment)
    )


def the_end(stage: RealStage, job_id: int, seconds: float = 60) -> Job:
    stage.wait_until(lambda: ended(stage, job_id), seconds, "the job ended")
    return stage.wait_until(lambda: recorded(stage, job_id), 30, "accounting has the end")


@pytest.mark.parametrize(
    ("text", "state", "code"),
    [
        ("kill -SEGV $$", JobState.FAILED, ExitCode(0, 11)),
        ("exec /no/such/interpreter", JobState.FAILED, ExitCode(127)),
        ("srun bash -c 'kill -SEGV $$'; exit 0", JobState.COMPLETED, ExitCode(0)),
    ],
)
def test_further_ends(stage: RealStage, text: str, state: JobState, code: ExitCode) -> None:
    job = the_end(stage, run_text(stage, text))
    assert job.state is state
    if code.code == 127:
        assert job.exit in (ExitCode(127), ExitCode(126))
    else:
        assert job.exit == code


def test_a_job_requeued_in_held_state_is_seen_to_be_held(stage: RealStage) -> None:
    job_id = stage.backend.submit(submission(stage, Program(seconds=60), "--requeue"))
    first = under_way(stage, job_id, 1)
    stage.cluster.run("scontrol", "requeuehold", str(job_id))

    def held() -> Job | None:
        job = in_queue(stage, job_id)
        return job if job is not None and job.attempt != first.attempt and job.held else None

    job = stage.wait_until(held, 60, "the job is held")
    assert job.restarts == 1
    stage.backend.cancel(job_id)


def test_an_admins_hold_is_told_from_the_users(stage: RealStage) -> None:
    job_id = stage.backend.submit(submission(stage, Program(seconds=60), "--begin=now+1hour"))
    stage.cluster.run("scontrol", "hold", str(job_id))
    job = stage.wait_until(lambda: in_queue(stage, job_id), 10, "the job is listed")
    assert job.held
    assert job.reason in {"JobHeldAdmin", "JobHeldUser"}  # a plain user's `hold` is a user's hold
    stage.backend.cancel(job_id)


def test_a_name_that_is_no_utf8_is_read_back_byte_for_byte(stage: RealStage) -> None:
    name = b"caf\xff\xfe|x".decode("utf-8", "surrogateescape")
    job_id = stage.backend.submit(submission(stage, Program(), f"--job-name={name}", f"--comment={name}"))
    job = stage.wait_until(lambda: in_queue(stage, job_id), 10, "the job is listed")
    assert os.fsencode(job.name) == b"caf\xff\xfe|x"
    assert os.fsencode(job.comment) == b"caf\xff\xfe|x"
    shown = stage.backend.job(job_id)
    assert shown is not None
    assert shown.name == job.name
    assert the_end(stage, job_id).state is JobState.COMPLETED


PATTERNS = ["", "%A_%a-%j.log", "%5j-%x-%u.out", "p%%j-%%.out", "sub/%j.out", "%n-%t-%s-%J.out", "%12j.out", "%q%j.out",
            "back\\%j.out", "%x [1]*.out"]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_logs_lie_where_their_patterns_say(stage: RealStage, pattern: str) -> None:
    (Path(stage.directory) / "sub").mkdir(exist_ok=True)
    options = [f"--output={pattern}", f"--error={pattern}.err"] if pattern else []
    options += ["--array=3"] if "%a" in pattern or not pattern else []
    job_id = run_text(stage, "echo out; echo err >&2", "--job-name=logs", *options)
    job = stage.wait_until(lambda: ended(stage, job_id), 30, "the job ended")
    paths = log_paths(job)
    assert "out" in Path(paths.stdout).read_text()
    assert "err" in Path(paths.stderr).read_text()


@pytest.mark.slow(40)
def test_a_job_that_left_the_queue_before_accounting_knows_its_end_is_neither_ended_nor_gone(stage: RealStage) -> None:
    job_id = stage.backend.submit(submission(stage, Program(seconds=4, code=6)))
    under_way(stage, job_id, 1)
    with stage.outage(Can.ACCOUNTING_DOWN):
        stage.wait_until(lambda: ended(stage, job_id), 30, "the job ended")
        stage.wait_until(lambda: in_queue(stage, job_id) is None or None, 90, "the queue forgot it")
        with pytest.raises(NoInformation):
            stage.backend.accounting([job_id])
        assert stage.backend.job(job_id) is None
    # Right after its return accounting may still call it running; only later the end arrives.
    rows = stage.backend.accounting([job_id])
    assert all(not row.state.terminal or row.exit == ExitCode(6) for row in rows), rows
    assert stage.wait_until(lambda: recorded(stage, job_id), 90, "accounting has caught up").exit == ExitCode(6)


@pytest.mark.slow(18)
def test_a_silently_dying_node_is_a_node_failure_after_a_while(stage: RealStage) -> None:
    job_id = stage.backend.submit(submission(stage, Program(seconds=300), "--no-requeue"))
    node = under_way(stage, job_id).nodes[0]
    stage.cluster.kill_slurmd(node)
    try:
        job = stage.wait_until(lambda: ended(stage, job_id), 120, "the job ended")
        assert job.state is JobState.NODE_FAIL
        (down,) = stage.backend.nodes([node])
        assert not down.usable
    finally:
        stage.cluster.revive_node(node)


def test_a_frozen_client_call_ends_by_its_deadline(stage: RealStage) -> None:
    from chainwatch.slurm import Deadlines

    impatient = stage.make_backend(deadlines=Deadlines(query=1, act=1, submit=1))
    with stage.outage(Can.CONTROLLER_FROZEN):
        begun = time.monotonic()
        with pytest.raises(NoInformation):
            impatient.queue(None)
        assert time.monotonic() - begun < 4
    stage.wait_until(lambda: stage.backend.info(), 60, "the controller answers again")


def test_two_clusters_have_their_own_ids(stage: RealStage, tmp_path: Path) -> None:
    with PrivateCluster.boot(tmp_path / "other", nodes=1) as other:
        far = CliBackend(other.name, str(other.conf))
        near_id = stage.backend.submit(submission(stage, Program()))
        far_id = far.submit(submission(stage, Program(), "--job-name=far"))
        job = stage.wait_until(lambda: next(iter(far.queue(None)), None), 30, "the far job is listed")
        assert (job.job_id, job.cluster, job.name) == (far_id, other.name, "far")
        assert far_id != near_id
        assert far.job(near_id) is None
        near = in_queue(stage, near_id)
        assert near is not None
        assert near.cluster == stage.cluster.name


def test_without_accounting_the_queue_tells_the_end(stage: RealStage) -> None:
    plain = stage.make_backend(has_accounting=False)
    assert plain.info().accounting is False
    job_id = plain.submit(submission(stage, Program(steps=(3,), code=2)))
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    assert (job.state, job.exit, job.derived_exit) == (JobState.FAILED, ExitCode(2), ExitCode(3))
    with pytest.raises(NoInformation, match="without accounting"):
        plain.accounting([job_id])


SHOW = "env -0 | sort -z | tr '\\0\\n' '\\n ' | grep -v -E '^(SLURM_|SLURMD_|TMPDIR=|_=|SHLVL=)'; umask; pwd; ulimit -a"

SERVICE = """
import os, resource, sys
from chainwatch.slurm import CliBackend, Submission
from chainwatch.slurm.environment import job_environment

name, conf, script, directory, out, captured = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
os.umask(0o077)
os.chdir("/")
os.environ.update(NOTIFY_SOCKET="/run/x", INVOCATION_ID="1", SBATCH_QOS="nonsense", SLURM_CLUSTERS="nonsense")
pairs = [pair.partition("=") for pair in open(captured).read().split("\\0") if pair]
environment = job_environment({key: value for key, _, value in pairs}, conf=conf)
backend = CliBackend(name, conf)
print(backend.submit(Submission(script, options=(f"--output={out}",), directory=directory, environment=environment)))
"""


def test_a_job_started_by_a_hardened_service_sees_what_one_from_a_shell_sees(stage: RealStage, tmp_path: Path) -> None:
    script = tmp_path / "show.sh"
    script.write_text(f"#!/bin/bash\n{SHOW}\n")
    users = {**stage.cluster.env, "HF_HOME": "/scratch/hf", "MULTI": "a\nb", "VIRTUAL_ENV": "/home/x/venv"}
    for name in ("_", "SHLVL", "OLDPWD", "PWD", "PYTEST_CURRENT_TEST", "PYTHONHOME"):
        users.pop(name, None)
    users = {name: value for name, value in users.items() if not name.startswith(("PYTEST_", "CHAINWATCH_"))}
    users = dict(job_environment(users))
    out = {name: tmp_path / f"{name}.out" for name in ("shell", "service")}
    shell = subprocess.run(
        ["bash", "-c", f"umask 022; exec sbatch --parsable --output={out['shell']} {script}"],
        env=users, cwd=stage.directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    captured = tmp_path / "captured"
    captured.write_text("\0".join(f"{name}={value}" for name, value in users.items()))
    command = [sys.executable, "-c", SERVICE, stage.cluster.name, str(stage.cluster.conf), str(script), stage.directory]
    service = subprocess.run(
        [*command, str(out["service"]), str(captured)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert service.returncode == 0, service.stderr
    for job_id in (int(shell.stdout), int(service.stdout)):
        stage.wait_until(lambda job_id=job_id: ended(stage, job_id), 60, "the job ended")  # type: ignore[misc]
    assert "HF_HOME=/scratch/hf" in out["shell"].read_text()
    assert out["service"].read_text() == out["shell"].read_text()


def test_the_daemons_limits_do_not_reach_the_job(stage: RealStage) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        job_id = run_text(stage, "ulimit -n", "--output=limits-%j.out")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    assert Path(log_paths(job).stdout).read_text().strip() != "300"


def test_umask_of_the_submission_is_the_jobs(stage: RealStage) -> None:
    path = Path(stage.directory) / "umask.sh"
    path.write_text("#!/bin/bash\numask\n")
    sent = Submission(str(path), ("x",), ("--output=umask-%j.out",), stage.directory, stage.environment, umask=0o027)
    job_id = stage.backend.submit(sent)
    job = stage.wait_until(lambda: ended(stage, job_id), 60, "the job ended")
    assert Path(log_paths(job).stdout).read_text().strip() == "0027"
    assert job.command.endswith("umask.sh x")
