"""`chainwatch diagnose --log`: the answer for people, the answer for scripts, and wrong use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainwatch.cli.diagnose import run

ECC = "[rank6]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text("step 1 loss 2\n" + ECC + "srun: error: gn-22: task 3: Exited with exit code 1\n")
    return path


def test_json_has_exactly_the_documented_keys(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--log", str(log), "--state", "FAILED", "--exit-code", "1:0", "--nodes", "gn-[21-22]", "--json"]
    assert run(args) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [
        "outcome", "cause", "retry", "culprit_nodes", "root_line", "confidence", "evidence", "ruled_out", "advice",
    ]  # fmt: skip
    assert (answer["outcome"], answer["cause"], answer["retry"]) == ("failed", "hardware_gpu", "yes_exclude_node")
    assert answer["culprit_nodes"] == ["gn-22"]
    assert answer["root_line"] == ECC.rstrip("\n")
    assert answer["evidence"][0] == {"source": str(log), "line": 2, "text": ECC.rstrip("\n")}


def test_people_get_cause_proof_culprit_and_advice(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--log", str(log), "--state", "FAILED", "--nodes", "gn-22"]) == 0
    page = capsys.readouterr().out
    for part in ("hardware_gpu", f"{log}:2", "gn-22", "what to do", "uncorrectable ECC"):
        assert part in page


def test_further_files_may_follow_one_log_option(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "err"
    other.write_text("nothing\n")
    assert run(["--log", str(other), str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "hardware_gpu"


def test_a_log_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"RuntimeError: \x1b]0;title\x07\x1b[2J uncorrectable ECC error\n")
    assert run(["--log", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_users_signatures_are_used_and_checked(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("signatures:\n- {id: x, match: 'step 1 loss', cause: numeric, specificity: 99}\n")
    assert run(["--log", str(log), "--signatures", str(own), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "numeric"
    own.write_text("signatures:\n- {id: x, match: '(', cause: numeric, specificity: 99}\n")
    assert run(["--log", str(log), "--signatures", str(own)]) == 2
    assert f"{own}:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "give one job id"),
        (["1", "2"], "give one job id"),
        (["--log", "/nowhere/job.log"], "/nowhere/job.log: No such file"),
        (["--log", "/dev/null", "--exit-code", "abc"], "is not like Slurm's"),
        (["abc"], "is no job id"),
        (["--no-such-option"], "no such option: --no-such-option (see chainwatch diagnose --help)"),
    ],
)
def test_wrong_use_is_one_sentence(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    assert says in capsys.readouterr().err


def test_slurms_facts_alone_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--log", "/nowhere/job.log", "--state", "TIMEOUT", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "time_limit"
