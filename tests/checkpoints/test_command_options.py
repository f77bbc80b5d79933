"""`verify --nan`, `verify --seal` and the user's own rule on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main

from .test_commands import run


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def steps(cases: Path, tmp_path: Path) -> Path:
    """Three steps in a format that has no checksum."""
    shutil.copytree(cases / "good/safetensors_single", tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path, offset: int, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= byte
    with open(path, "r+b") as file:
        file.write(data)


def test_rot_is_found_by_deep_once_the_newest_steps_are_sealed(
    steps: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capfd, "verify", str(steps), "--seal", "--json", "--rate", "1000")
    newest = [str(steps / "step_200.safetensors"), str(steps / "step_300.safetensors")]
    assert (code, json.loads(out)["sealed"], json.loads(out)["not_sealed"]) == (0, newest, [])
    assert len(list((state / "seals").iterdir())) == 2
    code, out, _ = run(capfd, "verify", str(steps), "--deep", "--json")
    assert [each["unverifiable"] for each in json.loads(out)["checkpoints"]] == [True, False, False]
    flip(steps / "step_300.safetensors", -100, 4)
    assert run(capfd, "verify", str(steps / "step_300.safetensors"))[0] == 0, "quick cannot see it"
    code, out, _ = run(capfd, "verify", str(steps), "--deep", "--json")
    assert json.loads(out)["newest_intact"]["step"] == 200
    assert json.loads(out)["checkpoints"][2]["problems"][0]["code"] == "checksum"
    assert run(capfd, "verify", str(steps / "step_300.safetensors"), "--deep")[0] == 3


def test_keep_says_how_many_steps_are_sealed_and_only_intact_ones_are(
    steps: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (steps / "step_300.safetensors").write_bytes(b"")
    code, out, _ = run(capfd, "verify", str(steps), "--seal", "--keep", "1")
    assert (code, out.count("sealed\n")) == (0, 1)
    (seal,) = (state / "seals").iterdir()
    assert json.loads(seal.read_text())["step"] == 200


def test_nan_counts_are_told_per_tensor_and_the_verdict_stays(steps: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = steps / "step_300.safetensors"
    data = bytearray(path.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    begin = 8 + int.from_bytes(data[:8], "little") + header["0.bias"]["data_offsets"][0]
    data[begin : begin + 12] = b"\x00\x00\xc0\x7f\x00\x00\x80\x7f\x00\x00\x80\xff"
    path.write_bytes(data)
    code, out, _ = run(capfd, "verify", str(path), "--nan", "--json")
    (found,) = json.loads(out)["checkpoints"]
    assert (code, found["status"]) == (0, "intact")
    assert {each["name"]: (each["nan"], each["infinite"]) for each in found["nan"] if each["dtype"] == "F32"} == {
        name: (1, 2) if name == "0.bias" else (0, 0) for name in header if name != "__metadata__"
    }
    code, out, _ = run(capfd, "verify", str(path), "--nan")
    assert code == 0
    assert "NaN or infinity in 1" in out
    assert "0.bias (F32): 1 NaN, 2 infinite of " in out


def test_without_nan_nothing_of_it_is_in_the_json(steps: Path, capfd: pytest.CaptureFixture[str]) -> None:
    value = json.loads(run(capfd, "verify", str(steps), "--json")[1])
    assert set(value) == {"path", "format", "checkpoints", "newest_intact"}
    assert "nan" not in value["checkpoints"][0]


RULE = {"checkpoint": "mine-{step}", "files": [{"glob": "part-*", "count": 2}]}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Two checkpoints of nobody's format; the newer one lacks a part."""
    for step, parts in ((10, 2), (20, 1)):
        folder = tmp_path / "own" / f"mine-{step}"
        folder.mkdir(parents=True)
        for part in range(parts):
            (folder / f"part-{part}").write_bytes(b"data")
    return tmp_path / "own"


@pytest.mark.parametrize("form", ["json", "yaml", "inline", "environment"])
def test_checkpoints_of_no_known_format_are_judged_by_the_users_rule(
    form: str, own: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["--rule", str(own / "rule")]
    if form == "inline":
        given[1] = json.dumps(RULE)
    elif form == "environment":
        monkeypatch.setenv("CHAINWATCH_RULE", json.dumps(RULE))
        given = ["--format", "custom"]
    else:
        yaml = "checkpoint: mine-{step}\nfiles:\n- {glob: part-*, count: 2}\n"
        (own / "rule").write_text(json.dumps(RULE) if form == "json" else yaml)
    code, out, err = run(capfd, "latest", str(own), *given, "--settle", "0")
    assert (code, out) == (0, f"{own}/mine-10\n")
    assert "step 20 is passed over, it is incomplete" in err
    assert run(capfd, "verify", str(own / "mine-20"), *given, "--settle", "0")[0] == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "custom"],
        ["--rule", "/nowhere/rule.yaml"],
        ["--rule", "{"],
        ["--rule", "[]"],
        ["--rule", '{"checkpoint": "no number"}'],
        ["--rule", '{"checkpoint": "a{step}", "fils": []}'],
        ["--rule", '{"checkpoint": "a{step}"}', "--format", "deepspeed"],
        ["--keep", "many", "--seal"],
    ],
)
def test_an_option_that_makes_no_sense_is_one_line_and_exit_code_2(
    arguments: list[str], own: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CHAINWATCH_RULE", raising=False)
    for command in ("verify", "latest") if "--keep" not in arguments else ("verify",):
        assert main([command, str(own), *arguments]) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
