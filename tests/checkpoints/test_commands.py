"""`chainwatch latest` and `chainwatch verify` as a batch script meets them: output, exit codes, JSON."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from chainwatch.cli.__main__ import main
from chainwatch.model.checkpoint import Status

DAMAGED_RUN = "bad/deepspeed/zerotail/run"
ALL_BAD_RUN = "bad/deepspeed/z3_optim_last1/run"
GOOD_RUN = "good/deepspeed/zero2_fp32_w3"


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capfd.readouterr()
    return code, out, err


def test_latest_prints_the_path_and_nothing_else(cases: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "latest", str(cases / GOOD_RUN)) == (0, f"{cases / GOOD_RUN}/global_step30\n", "")


def test_latest_passes_over_a_damaged_step_and_says_so_on_one_line(
    cases: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capfd, "latest", str(cases / DAMAGED_RUN))
    assert (code, out) == (0, f"{cases / DAMAGED_RUN}/global_step20\n")
    assert err.count("\n") == 1
    assert "step 30 is passed over, it is damaged" in err


def test_latest_tells_none_yet_from_none_intact(cases: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, "latest", str(tmp_path))
    assert (code, out, err.count("\n")) == (1, "", 1)
    code, out, err = run(capfd, "latest", str(cases / ALL_BAD_RUN))
    assert (code, out, err.count("\n")) == (3, "", 1)


def test_a_run_directory_that_is_yet_to_be_made_holds_no_checkpoint_yet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(capfd, "latest", str(tmp_path / "new"))[0] == 1
    assert run(capfd, "latest", str(tmp_path / "not" / "mounted"))[0] == 2


@pytest.mark.parametrize("command", ["latest", "verify"])
@pytest.mark.parametrize(
    "arguments",
    [[], ["a", "b"], ["--format"], ["--nonsense", "x"], [".", "--format", "zip"], [".", "--settle", "soon"]],
)
def test_usage_is_exit_code_2_and_one_line(
    command: str, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capfd, command, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("command", ["latest", "verify"])
def test_help_is_on_stdout(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, command, "--help")
    assert (code, err) == (0, "")
    assert "Exit codes" in out


def test_verify_answers_for_a_run_and_for_one_checkpoint(cases: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "verify", str(cases / DAMAGED_RUN))[0] == 0
    assert run(capfd, "verify", str(cases / DAMAGED_RUN / "global_step30"))[0] == 3
    assert run(capfd, "verify", str(cases / DAMAGED_RUN / "global_step20"))[0] == 0
    assert run(capfd, "verify", str(cases / ALL_BAD_RUN))[0] == 3


def test_verify_tells_nothing_there_from_not_readable(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "verify", str(tmp_path))
    assert (code, out) == (1, f"no checkpoint at {tmp_path}\n")
    code, out, err = run(capfd, "verify", str(tmp_path / "gone"))
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_the_json_has_the_documented_keys(cases: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "verify", str(cases / DAMAGED_RUN), "--json")
    value = json.loads(out)
    assert code == 0
    assert set(value) == {"path", "format", "checkpoints", "newest_intact"}
    assert value["path"] == str(cases / DAMAGED_RUN)
    assert value["newest_intact"] == {"path": str(cases / DAMAGED_RUN / "global_step20"), "step": 20}
    older, newer = value["checkpoints"]
    keys = {"path", "step", "format", "status", "reason", "unverifiable", "warnings", "problems", "in_progress_until"}
    assert set(older) == set(newer) == keys
    assert (older["status"], newer["status"]) == ("intact", "damaged")
    assert set(newer["problems"][0]) == {"file", "code", "expected", "found"}


@pytest.mark.parametrize("command", ["verify", "latest", "quarantine"])
def test_one_that_is_in_progress_says_why_and_until_when(
    cases: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    shutil.copytree(cases / DAMAGED_RUN, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "global_step20")
    newer = next(each for each in (tmp_path / "run").iterdir() if each.is_dir())
    changed = time.time() - 90
    for each in (*newer.rglob("*"), newer):
        os.utime(each, (changed, changed))
    path = str(newer if command == "quarantine" else tmp_path / "run")
    more = ["--state", str(tmp_path / "state")] if command == "quarantine" else []
    code, out, err = run(capfd, command, path, *more)
    at = datetime.fromtimestamp(changed + 300, UTC)
    assert code == 3
    assert re.search(rf"it changed 9\d s ago: in progress until {at:%H:%M:%S} UTC", out + err)
    if command != "quarantine":
        told = json.loads(run(capfd, command, path, "--json")[1])["checkpoints"][0]
        assert (told["status"], told["in_progress_until"]) == ("in_progress", f"{at:%Y-%m-%dT%H:%M:%SZ}")
        assert "in progress until" not in "".join(run(capfd, command, path, "--settle", "0")[1:])


def test_one_that_is_held_open_for_writing_is_in_progress_as_long_as_its_writer_lives(
    cases: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(cases / DAMAGED_RUN, tmp_path / "run")
    newer = next(each for each in (tmp_path / "run").iterdir() if each.is_dir() and each.name != "global_step20")
    file = next(each for each in newer.rglob("*") if each.is_file())
    with file.open("ab"):
        for each in (*newer.rglob("*"), newer):
            os.utime(each, (1e9, 1e9))
        _, out, _ = run(capfd, "verify", str(newer))
    assert "a process holds it open for writing" in out


def test_the_json_of_nothing_has_no_newest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("latest", "verify"):
        code, out, _ = run(capfd, command, str(tmp_path), "--json")
        assert code == 1
        assert json.loads(out)["newest_intact"] is None


def test_a_path_comes_out_byte_for_byte(cases: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    place = tmp_path / os.fsdecode(b"run \xff\nx")
    shutil.copytree(cases / GOOD_RUN, place)
    assert main(["latest", str(place)]) == 0
    assert capfdbinary.readouterr().out == os.fsencode(str(place)) + b"/global_step30\n"


def test_a_format_can_be_named(cases: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "latest", str(cases / GOOD_RUN), "--format", "deepspeed")[0] == 0
    assert run(capfd, "latest", str(cases / GOOD_RUN), "--format=megatron")[0] == 1


def test_deep_finds_what_quick_cannot(cases: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_dir = str(cases / "bad/deepspeed/bitflip/run")
    assert run(capfd, "latest", run_dir)[0] == 0
    assert run(capfd, "latest", run_dir, "--deep")[0] == 3
    code, out, err = run(capfd, "verify", run_dir, "--deep")
    assert code == 3
    assert "CRC" in out
    assert err == "", "a bar is for terminals"


def test_the_light_commands_load_nothing_heavy(cases: Path) -> None:
    code = (
        "import sys; from chainwatch.cli.__main__ import main; main(sys.argv[1:]);"
        "heavy = {'re', 'typing', 'enum', 'functools', 'json', 'argparse', 'typer', 'pydantic', 'asyncio', 'subprocess',"
        " 'zipfile', 'pickle'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    for run_dir in (GOOD_RUN, "good/hf_trainer/ddp_w2", "good/megatron/torch_dist_w2", "good/lightning/single"):
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, "latest", str(cases / run_dir)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            check=True,
        )
        assert done.stderr.splitlines()[-1] == "[]"


def test_a_status_is_the_word_that_enum_would_make_of_it() -> None:
    assert list(Status) == ["intact", "damaged", "incomplete", "in_progress"]
    for status in Status:
        again = pickle.loads(pickle.dumps(status))
        assert again is Status(status.value) is copy.deepcopy(status) is getattr(Status, status.name)
        assert f"{status}" == json.loads(json.dumps(status)) == status.value
        assert TypeAdapter(Status).validate_json(TypeAdapter(Status).dump_json(status)) is status
    for wrong in ("whole", None, []):
        with pytest.raises(ValueError, match="is not a valid Status"):
            Status(wrong)
    with pytest.raises(ValidationError):
        TypeAdapter(Status).validate_python("whole")
    with pytest.raises(AttributeError):
        Status.INTACT = Status.DAMAGED  # type: ignore[misc]


def test_the_library_is_imported_quickly_and_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); from chainwatch.checkpoints import verify, newest_intact;"
        "print(len(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 45
