"""`chainwatch exec`: exit codes, signals, the checkpoint that is handed over, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkpoints.torch_files import save
from tests.job.conftest import Task

COUNTER = (
    "import os, signal, sys, time\n"
    "got = []\n"
    "signal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
    "print('ready', flush=True)\n"
    "end = time.time() + 20\n"
    "while not got and time.time() < end: time.sleep(0.02)\n"
    "time.sleep(0.6)\n"
    "print(len(got), flush=True)\n"
)


def checkpoint(run: Path, step: int, *, cut: bool = False) -> Path:
    run.mkdir(exist_ok=True)
    path = run / f"step_{step}.pt"
    save(path, {"step": step}, 4096)
    if cut:
        os.truncate(path, 3000)
        os.utime(path, (time.time() - 3600,) * 2)
    return path


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 200", 200)],
)
def test_the_exit_code_is_the_commands_own_and_128_more_for_a_signal(task: Task, command: str, code: int) -> None:
    assert task.exec("--", "sh", "-c", command).returncode == code
    (record,) = task.files("end-")
    assert (record["exit_code"], record["signal"]) == ((None, code - 128) if code in (137, 143) else (code, None))


def test_a_command_that_is_not_there_ends_as_in_a_shell(task: Task) -> None:
    done = task.exec("no-such-program")
    assert (done.returncode, "Traceback" in done.stderr) == (127, False)
    (task.home / "data").write_text("no program")
    assert task.exec("./data").returncode == 126


def test_the_newest_intact_checkpoint_is_handed_over_and_the_damaged_one_is_named(task: Task) -> None:
    good = checkpoint(task.run, 10)
    checkpoint(task.run, 20, cut=True)
    shown = 'echo "$CHAINWATCH_RESUME_FROM $CHAINWATCH_RESUME_STEP"; cat "$CHAINWATCH_RESUME_FILE"'
    done = task.exec("--checkpoints", "run", "sh", "-c", shown)
    assert done.stdout == f"{good} 10\n{good}\n"
    assert "step 20 is passed over" in done.stderr
    assert task.files("end-")[0]["resumed_from"] == str(good)


def test_no_checkpoint_yet_is_a_fresh_start(task: Task) -> None:
    done = task.exec(
        "--checkpoints", "run", "sh", "-c", 'cat "$CHAINWATCH_RESUME_FILE"; echo "[$CHAINWATCH_RESUME_FROM]"'
    )
    assert (done.returncode, done.stdout) == (0, "[]\n")


def test_checkpoints_of_which_none_is_intact_stop_the_job_before_it_starts_from_step_0(task: Task) -> None:
    checkpoint(task.run, 20, cut=True)
    done = task.exec("--checkpoints", "run", "touch", "started")
    assert (done.returncode, (task.home / "started").exists()) == (3, False)
    assert task.files("end-")[0]["refused"]
    assert task.exec("--checkpoints", "run", "--from-scratch", "touch", "started").returncode == 0


def test_files_that_look_like_saves_of_no_known_format_stop_the_job_before_it_starts_from_step_0(task: Task) -> None:
    task.run.mkdir()
    (task.run / "model_000100.pkl").write_bytes(b"x")
    done = task.exec("--checkpoints", "run", "touch", "started")
    assert (done.returncode, (task.home / "started").exists()) == (3, False)
    assert "1 file under " in done.stderr
    assert "looks like a save (model_000100.pkl), but it is not of a format that chainwatch knows" in done.stderr
    assert task.exec("--checkpoints", "run", "--from-scratch", "touch", "started").returncode == 0


def test_what_must_be_avoided_is_not_picked(task: Task) -> None:
    good, poison = checkpoint(task.run, 10), checkpoint(task.run, 20)
    show = ("--checkpoints", "run", "sh", "-c", "echo $CHAINWATCH_RESUME_FROM")
    assert task.exec(*show).stdout.strip() == str(poison)
    assert task.exec(*show, CHAINWATCH_AVOID=str(poison)).stdout.strip() == str(good)


def test_all_tasks_of_a_step_get_one_answer_even_if_a_newer_checkpoint_appears_meanwhile(task: Task) -> None:
    good = checkpoint(task.run, 10)
    show = ("--checkpoints", "run", "sh", "-c", "echo $CHAINWATCH_RESUME_FROM")
    step = {"SLURM_STEP_ID": "0", "SLURM_LOCALID": "0"}
    assert task.exec(*show, **step, SLURM_PROCID="0").stdout.strip() == str(good)
    newer = checkpoint(task.run, 20)
    assert task.exec(*show, **step, SLURM_PROCID="1").stdout.strip() == str(good)
    later = {**step, "SLURM_STEP_ID": "1"}
    assert task.exec(*show, **later, SLURM_PROCID="0").stdout.strip() == str(newer)
    requeued = {**step, "SLURM_RESTART_COUNT": "1"}
    assert task.exec(*show, **requeued, SLURM_PROCID="0").stdout.strip() == str(newer)


def test_a_job_submitted_from_inside_another_chooses_for_itself(task: Task) -> None:
    checkpoint(task.run, 10)
    inner = " ".join(task.words("--checkpoints", "run", "sh -c 'echo $CHAINWATCH_RESUME_FROM'"))
    outer = f"mv {task.run}/step_10.pt {task.run}/step_11.pt; exec env SLURM_JOB_ID=%s {inner}"
    here = task.exec("--checkpoints", "run", "sh", "-c", outer % 41).stdout.strip()
    assert here == str(task.run / "step_10.pt"), "a nested call keeps the choice of its job"
    (task.run / "step_11.pt").rename(task.run / "step_10.pt")
    assert task.exec("--checkpoints", "run", "sh", "-c", outer % 42).stdout.strip() == str(task.run / "step_11.pt")


def test_paths_are_handed_over_as_the_container_sees_them(task: Task) -> None:
    good = checkpoint(task.run, 10)
    words = ("--checkpoints", "run", "--map", f"{task.run}=/data", "sh", "-c", "echo $CHAINWATCH_RESUME_FROM")
    assert task.exec(*words).stdout.strip() == f"/data/{good.name}"


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def test_the_users_own_rule_judges_what_no_format_knows(task: Task) -> None:
    """The rule comes with the job's environment, as chainwatch hands it over, or by an option."""
    for step, shards in ((10, 2), (20, 1)):
        (task.run / f"step_{step}").mkdir(parents=True)
        for shard in range(shards):
            (task.run / f"step_{step}" / f"model-{shard}.bin").write_text("weights")
    rule = json.dumps({"checkpoint": "step_{step}", "files": [{"glob": "model-*.bin", "count": 2}]})
    told = {"CHAINWATCH_CHECKPOINTS": str(task.run), "CHAINWATCH_FORMAT": "custom", "CHAINWATCH_RULE": rule}
    done = task.exec("sh", "-c", "echo $CHAINWATCH_RESUME_FROM", **told)
    assert done.stdout.strip() == str(task.run / "step_10"), done.stderr
    (task.home / "rule.json").write_text(rule)
    done = task.exec("--checkpoints", "run", "--rule", "rule.json", "sh", "-c", "echo $CHAINWATCH_RESUME_STEP")
    assert done.stdout.strip() == "10", done.stderr
    del told["CHAINWATCH_RULE"]
    done = task.exec("true", **told)
    assert (done.returncode, done.stderr.count("\n"), "--rule" in done.stderr) == (2, 1, True)


def test_the_configured_paths_of_a_container_are_handed_over_without_an_option(task: Task) -> None:
    good = checkpoint(task.run, 10)
    told = {"CHAINWATCH_CHECKPOINTS": str(task.run), "CHAINWATCH_PATHS": json.dumps({str(task.home): "/data"})}
    done = task.exec("sh", "-c", 'echo "$CHAINWATCH_RESUME_FROM"; cat ${CHAINWATCH_RESUME_FILE#/data/}', **told)
    assert done.stdout.splitlines() == [f"/data/run/{good.name}"] * 2, done.stderr
    assert task.exec("true", CHAINWATCH_PATHS="[").returncode == 2


def test_a_signal_for_the_wrapper_alone_is_passed_on(task: Task) -> None:
    process = task.start("python3", "-c", COUNTER)
    _ready(process)
    process.send_signal(signal.SIGUSR1)
    assert process.communicate(timeout=30)[0] == "1\n"
    (record,) = task.files("end-")
    assert [name for name, _ in record["signals"]] == ["SIGUSR1"]


def test_a_signal_for_every_process_reaches_the_command_once(task: Task) -> None:
    process = task.start("python3", "-c", COUNTER, start_new_session=True)
    _ready(process)
    os.killpg(process.pid, signal.SIGUSR1)
    assert process.communicate(timeout=30)[0] == "1\n", "SIGTERM twice means: drop your save"


def test_a_signal_that_was_ignored_stays_ignored(task: Task) -> None:
    show = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *task.words("python3", "-c", show)],
        env=task.environment, cwd=task.home, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_a_note_of_the_signal_survives_a_kill_and_says_that_a_save_was_under_way(task: Task) -> None:
    task.run.mkdir()
    growing = "trap '' TERM; echo ready; while :; do echo x >> run/half.pt; sleep 0.1; done"
    process = task.start("--from-scratch", "--checkpoints", "run", "sh", "-c", growing, start_new_session=True)
    _ready(process)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGTERM)
    end = time.time() + 20
    while not task.files("end-") and time.time() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    (record,) = task.files("end-")
    assert (record["exit_code"], record["saving"]) == (None, True)
    assert record["signals"][0][0] == "SIGTERM"


def test_the_end_of_the_log_is_kept_where_it_is_a_file(task: Task) -> None:
    with open(task.home / "log", "w") as log:
        subprocess.run(
            task.words("sh", "-c", "echo out of cheese; exit 4"),
            env=task.environment, cwd=task.home, stdout=log, stderr=log, check=False, timeout=60,
        )  # fmt: skip
    assert task.files("end-")[0]["last_lines"][-1] == "out of cheese"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--preflight", "echo fan broken; exit 1"), "fan broken"),
        (("--need-path", "/no/such/mount"), "/no/such/mount"),
        (("--need-gpus", "4"), "nvidia-smi"),
    ],
)
def test_a_node_that_is_not_fit_ends_with_75_and_is_named(task: Task, words: tuple[str, ...], why: str) -> None:
    task.environment["PATH"] = "/usr/bin:/bin"
    done = task.exec(*words, "touch", "started")
    assert (done.returncode, (task.home / "started").exists()) == (75, False)
    (record,) = task.files("end-")
    assert why in record["preflight"]
    assert record["bad_node"] == "n01"


def test_a_gpu_with_ecc_errors_is_named(task: Task) -> None:
    tool = task.home / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nprintf '0, 0\\n1, 3\\n'\n")
    tool.chmod(0o755)
    task.environment["PATH"] = f"{tool.parent}:/usr/bin:/bin"
    assert "GPU 1 has 3 uncorrected ECC errors" in task.exec("--need-gpus", "2", "true").stderr
    tool.write_text("#!/bin/sh\nprintf '0, 0\\n1, 0\\n'\n")
    assert task.exec("--need-gpus", "2", "true").returncode == 0


def test_a_node_says_how_far_its_task_is_and_how_its_gpus_are(task: Task) -> None:
    tool = task.home / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nprintf '0, 0, 71, 0x0000000000000004, 8, 16\\n1, [N/A], 64, Not Active, 16, 16\\n'\n")
    tool.chmod(0o755)
    task.environment["PATH"] = f"{tool.parent}:{task.environment['PATH']}"
    program = "from chainwatch.job import heartbeat; heartbeat(step=12); import time; time.sleep(1)"
    task.exec("--heartbeat", "0.2", sys.executable, "-c", program)
    (said,) = task.files("node-")
    assert (said["node"], said["step"], said["phase"], said["gpu_count"]) == ("n01", 12, "training", 2)
    assert said["gpus"][0] == {
        "index": 0, "ecc": 0, "temperature": 71, "throttle": "0x0000000000000004", "pcie_width": 8, "pcie_width_max": 16
    }  # fmt: skip
    assert "ecc" not in said["gpus"][1], "what a card does not have is left out"


def test_a_full_disk_is_nobodys_node(task: Task) -> None:
    assert task.exec("--need-free", "900000000", "true").returncode == 75
    assert task.files("end-")[0]["bad_node"] is None


def test_every_task_of_a_node_hears_of_its_preflight(task: Task) -> None:
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    words = ("--preflight", "echo once >> log; exit 1", "true")
    codes = [
        task.exec(*words, **{**step, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)}).returncode for i in range(3)
    ]
    assert codes == [75, 75, 75]
    assert (task.home / "log").read_text() == "once\n"


def test_a_directory_that_cannot_be_written_does_not_keep_the_command_from_running(task: Task) -> None:
    (task.home / ".chainwatch").write_text("in the way")
    done = task.exec("sh", "-c", "echo here; exit 9")
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (9, "here\n", False)


def test_nonsense_on_the_command_line_is_a_usage_error(task: Task) -> None:
    for words in ((), ("--no-such", "x"), ("--map", "x", "true"), ("--need-free", "lots", "true"), ("--checkpoints",)):
        done = task.exec(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words


def test_the_wrapper_stays_small_and_idle(task: Task) -> None:
    process = task.start("sh", "-c", "echo ready; sleep 2", start_new_session=True)
    _ready(process)
    time.sleep(0.5)
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    before = _ticks(process.pid)
    time.sleep(1.0)
    spent = _ticks(process.pid) - before
    process.communicate(timeout=20)
    assert pages * os.sysconf("SC_PAGESIZE") < 25e6
    assert spent <= 1, "hundredths of a second in one second"


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_the_end_record_says_which_container_it_ran_in(task: Task) -> None:
    task.exec("false", APPTAINER_CONTAINER="/images/a.sif")
    assert task.files("end-")[0]["image"] == "/images/a.sif"
