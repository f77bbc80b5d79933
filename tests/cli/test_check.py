from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainwatch.cli import check
from chainwatch.cli.__main__ import main
from chainwatch.config.site import Site, SiteError
from chainwatch.evidence import PROFILES


def run(*arguments: object) -> int:
    return main([str(a) for a in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text("chains:\n  a: {batch: train.sh}\n  b: {batch: missing.sh}\n")
    (tmp_path / "train.sh").touch()
    return path


def test_a_right_configuration_ends_with_0_and_warns_of_missing_scripts(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", config) == 0
    out, err = capsys.readouterr()
    assert out == f"{config}: right; 2 chains\n"
    assert err == f"warning: b: the batch script {config.parent}/missing.sh is not there\n"
    assert run("check", config, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["chains"], len(said["warnings"])) == (True, ["a", "b"], 1)


def test_a_script_that_cannot_be_looked_at_is_one_that_is_not_there(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "missing.sh").symlink_to("x" * 300)  # the system refuses to look, as it does in a closed folder
    assert run("check", config) == 0
    assert "missing.sh is not there" in capsys.readouterr().err


def test_a_wrong_configuration_ends_with_2_and_every_problem_on_a_line(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("pol: 1\nchains: {a: {batch: x, mode: act, logs: {profile: 1}}}\nstat: x\n")
    assert run("check", config) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{config}:1: pol: is not a known key; did you mean `poll`?",
        f"{config}:2: chains.a.logs.profile: no progress profile is called '1'; there are auto, {', '.join(PROFILES)}",
        f"{config}:3: stat: is not a known key; did you mean `state`?",
    ]
    assert run("check", config, "--json") == 2
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["problems"][0] == {
        "file": str(config), "line": 1, "key": "pol", "message": "is not a known key; did you mean `poll`?",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "poll: 2m\n", "chains:\n"])
def test_a_configuration_without_chains_is_right_and_it_is_said_that_it_has_none(
    config: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    config.write_text(text)
    assert run("check", config) == 0
    out, err = capsys.readouterr()
    assert out == f"{config}: right; no chains\n"
    assert err.startswith("warning: it has no chains:")
    assert run("check", config, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 1


def test_what_only_the_readers_know_is_checked_too(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("chains:\n  a:\n    batch: x\n    logs: {profile: 1}\n")
    assert run("check", config) == 2
    assert "no progress profile is called '1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["check {0}", "reload -c {0}", "submit a -c {0}", "doctor {0}"],
    ids=lambda c: c.split()[0],
)
def test_a_scripts_own_array_whose_tasks_run_side_by_side_is_refused_alike_by_all_that_judge_a_configuration(
    config: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The kind: what `check` calls wrong, and another command begins with."""
    script = config.parent / "train.sh"
    script.write_text("#!/bin/sh\n#SBATCH -J x\n#SBATCH --array=0-3\nsrun x\n")
    config.write_text(f"state: {config.parent}/state\ndefaults: {{batch: train.sh}}\nchains: {{a: {{}}, b: {{}}}}\n")
    assert run(*command.format(config).split()) == 2
    [said] = capsys.readouterr().err.splitlines()
    wrong = f"{config}:2: defaults.batch: {script}:3: --array=0-3 runs 4 tasks side by side, and a chain is one job"
    assert said.removeprefix("chainwatch: ").startswith(wrong)
    assert not (config.parent / "state").exists()


def test_the_array_that_counts_is_judged_and_a_pinned_script_is_not_the_one_that_lies_there(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "train.sh").write_text("#!/bin/sh\n#SBATCH --array=0-3\nsrun x\n")
    each = "each: {matrix: {task: [0, 1]}}"
    for right in ("sbatch: ['--array=0-3%1']", f"sbatch: ['--array={{task}}'], {each}", "script: pinned"):
        config.write_text(f"chains: {{a: {{batch: train.sh, {right}}}}}\n")
        assert run("check", config) == 0, capsys.readouterr().err
    capsys.readouterr()
    config.write_text("chains: {a: {batch: train.sh, sbatch: ['--array=0-3%2']}}\n")
    assert run("check", config, "--json") == 2
    assert [p["key"] for p in json.loads(capsys.readouterr().out)["problems"]] == ["chains.a.sbatch"], "said once"


def test_what_the_sites_limits_change_is_said_as_the_daemon_will_say_it(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"poll_at_least": "5m", "forbid": ["act", "alerts"], "contact": "help@example.org"}
    monkeypatch.setattr(check, "load_site", lambda: Site.model_validate(limits))
    channel = "alerts: {channels: {ops: {type: slack, url_env: HOOK}}}"
    config.write_text(f"{channel}\npoll: 1m\nchains: {{a: {{batch: train.sh}}}}\n")
    assert run("check", config) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: poll is 5m, the least that this site allows (help@example.org)",
        "warning: alerts go to no other host, as this site demands: look at `chainwatch status` (help@example.org)",
        "warning: chain a: it only observes: this site only lets chainwatch observe (help@example.org)",
    ]
    assert run("check", config, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 3


def test_a_site_file_that_no_daemon_would_start_with_is_a_problem(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def untrusted() -> Site:
        raise SiteError("its limits mean nothing")

    monkeypatch.setattr(check, "load_site", untrusted)
    assert run("check", config) == 2
    assert capsys.readouterr().err == "its limits mean nothing\n"
    assert run("check", config, "--json") == 2
    assert [p["file"] for p in json.loads(capsys.readouterr().out)["problems"]] == ["/etc/chainwatch/site.yaml"]


def test_a_directory_of_logs_that_is_not_there_is_a_warning(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "train.sh").write_text("#!/bin/sh\n#SBATCH -o logs/%j.out\n")
    config.write_text("chains: {a: {batch: train.sh}}\n")
    assert run("check", config) == 0
    assert f"mkdir -p {config.parent}/logs" in capsys.readouterr().err
    (config.parent / "logs").mkdir()
    assert run("check", config) == 0
    assert capsys.readouterr().err == ""


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--schema") == 0
    assert "defaults" in json.loads(capsys.readouterr().out)["properties"]


def test_a_missing_file_and_no_file_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", tmp_path / "none.yaml") == 2
    said = "cannot be read: No such file or directory; `chainwatch init SCRIPT` writes a first one"
    assert capsys.readouterr().err == f"{tmp_path}/none.yaml: {said}\n"
    assert run("check") == 2
    assert capsys.readouterr().err.startswith("chainwatch: name a configuration to check")
