"""Running a client: deadlines, groups, bytes, and what counts as an answer."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from chainwatch.slurm import pipes
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.process import TimedOut, answer, run
from tests.slurm.fake import reply

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def client(directory: Path, text: str) -> str:
    """A program that does what `text` says."""
    path = directory / "client"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_client_gets_exactly_the_environment_umask_and_directory_it_is_given(tmp_path: Path) -> None:
    program = client(tmp_path, "env | grep -v -e ^SHLVL -e ^PWD -e ^_=; umask; pwd")
    got = run([program], environment={"A": "1", **ENVIRONMENT}, deadline=10, cwd=str(tmp_path), umask=0o027)
    assert set(got.text.split("\n")[:-1]) == {"A=1", f"PATH={ENVIRONMENT['PATH']}", "0027", str(tmp_path)}
    assert got.code == 0


def test_a_client_that_hangs_is_killed_with_its_children_within_its_deadline(tmp_path: Path) -> None:
    program = client(tmp_path, "trap '' TERM; sleep 60 & echo $! > child; echo half an answer; wait")
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"within 0\.5 s"):
        run([program], environment=ENVIRONMENT, deadline=0.5, cwd=str(tmp_path))
    assert time.monotonic() - begun < 5
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the client's child lives on")


def test_a_child_that_keeps_the_pipe_open_does_not_keep_the_call_open(tmp_path: Path) -> None:
    program = client(tmp_path, "setsid sleep 30 & echo $! > child; echo done")
    begun = time.monotonic()
    with pytest.raises(TimedOut):
        run([program], environment=ENVIRONMENT, deadline=0.5, cwd=str(tmp_path))
    assert time.monotonic() - begun < 5
    os.kill(int((tmp_path / "child").read_text()), 9)


def test_a_client_that_is_not_there_is_no_information(tmp_path: Path) -> None:
    with pytest.raises(NoInformation, match="cannot be started"):
        run([str(tmp_path / "squeue")], environment=ENVIRONMENT, deadline=1)
    with pytest.raises(NoInformation, match="cannot be entered"):
        run(["/bin/true"], environment=ENVIRONMENT, deadline=1, cwd=str(tmp_path / "gone"))


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    program = client(tmp_path, r"printf 'caf\xff\n'; printf 'err\xff\n' >&2")
    got = run([program], environment=ENVIRONMENT, deadline=10)
    assert got.stdout == b"caf\xff\n"
    assert got.text.encode("utf-8", "surrogateescape") == got.stdout
    assert got.stderr == "err\ufffd\n"


@pytest.mark.parametrize(
    "line",
    [
        "squeue: error: If munged is up, restart with --num-threads=10",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
        "sacct: fatal: ReqGRES is deprecated, please use ReqTRES",
        "sacct: error: Problem talking to the database: Unable to connect to database",
        "error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host",
        "/usr/bin/squeue: error: x",
        "Slurm accounting storage is disabled",
    ],
)
def test_what_slurm_means_as_an_error_is_no_answer_even_at_exit_0(line: str) -> None:
    with pytest.raises(NoInformation):
        answer(reply("JOBID\n", line + "\n"))


@pytest.mark.parametrize(
    "line",
    [
        "Welcome to the cluster. Report errors: help@example.org",
        "Lmod Warning: module cuda/12 is deprecated",
        "bash: warning: setlocale: LC_ALL: cannot change locale",
        "tput: No value for $TERM and no -T specified",
        "squeue: warning: something is odd",
    ],
)
def test_what_else_stands_on_stderr_is_noise(line: str) -> None:
    assert answer(reply("JOBID\n", line + "\n")).stdout


@pytest.mark.parametrize("code", [1, 2, 8, -9, 127])
def test_a_failed_client_is_no_answer_whatever_it_printed(code: int) -> None:
    with pytest.raises(NoInformation):
        answer(reply("JOBID\n7\n", "", code))


def test_the_line_that_names_the_cause_is_the_one_that_is_told() -> None:
    stderr = (
        "sbatch: error: If munged is up, restart with --num-threads=10\n"
        "sbatch: error: slurm_send_node_msg: auth_g_create: REQUEST_SUBMIT_BATCH_JOB has authentication error\n"
        "sbatch: error: Batch job submission failed: Protocol authentication error\n"
    )
    assert reply(stderr=stderr, code=1).complaint().endswith("failed: Protocol authentication error")
    assert reply(code=1).complaint() == "it printed no error"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_client_that_prints_for_ever_is_killed_before_it_takes_the_memory(
    tmp_path: Path, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "MOST_OUTPUT", 4 << 20)
    program = client(tmp_path, f"echo $$ > pid; exec yes 'a line of sacct' >&{stream}")
    with pytest.raises(NoInformation, match="printed more than 4 MiB") as said:
        run([program], environment=ENVIRONMENT, deadline=60, cwd=str(tmp_path))
    assert not isinstance(said.value, TimedOut)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_client_reads_all_that_it_is_given_while_it_prints(tmp_path: Path) -> None:
    script = os.urandom(300_000)
    assert run(["cat"], environment=ENVIRONMENT, deadline=30, stdin=script).stdout == script
    assert run(["true"], environment=ENVIRONMENT, deadline=30, stdin=script).code == 0
    assert run(["cat"], environment=ENVIRONMENT, deadline=30, stdin=b"").stdout == b""


def test_a_client_that_closes_its_output_and_lives_on_is_killed_at_its_deadline(tmp_path: Path) -> None:
    program = client(tmp_path, "echo said; exec >&- 2>&-; exec sleep 30")
    with pytest.raises(TimedOut) as late:
        run([program], environment=ENVIRONMENT, deadline=0.5)
    assert late.value.printed == b"said\n"
