"""Words of sbatch that submit nothing, wait, or keep silent: a drop-in takes them as sbatch does, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli import sbatch
from chainwatch.cli.__main__ import main
from chainwatch.store import open_store
from tests.simulation.lab import Lab, batch


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell in a directory with `job.sh`, and an sbatch that says what it was called with."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "itself: $*"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsrun work\n")
    return tmp_path


@pytest.mark.parametrize("words", [["--test-only", "job.sh"], ["-V"], ["--usage"], ["-n1", "--version"]])
def test_what_submits_nothing_is_left_to_sbatch_and_registers_nothing(
    desk: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """The kind: an answer without a job id, taken for a job that may exist."""
    assert main(["sbatch", *words, "--cw-name=x"] if words[-1] != "job.sh" else ["sbatch", "--cw-name=x", *words]) == 3
    assert capfd.readouterr().out == f"itself: {' '.join(words)}\n"
    assert not (desk / "state").exists()


@pytest.mark.parametrize("word", ["-W", "--wait"])
def test_waiting_for_the_end_of_a_job_is_refused_with_the_reason(
    desk: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert main(["sbatch", word, "job.sh"]) == 1
    assert "a chain goes on after its job" in capsys.readouterr().err
    assert not (desk / "state").exists()


@pytest.mark.parametrize(("words", "out"), [(["-Q"], ""), (["--parsable"], "1\n"), ([], "Submitted batch job 1\n")])
def test_a_quiet_submission_is_silent_and_known(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], out: str
) -> None:
    lab = Lab()
    lab.script(batch(None), path=str(desk / "job.sh"))
    monkeypatch.setattr(sbatch, "backends", lambda config, store: {lab.backend.name: lab.backend})
    assert main(["sbatch", *words, "-n1", "job.sh"]) == 0
    assert capsys.readouterr().out == out
    store = open_store(desk / "state")
    try:
        [chain] = store.chains()
        assert chain.settings["sbatch"] == ["-n1"]
        assert chain.job_ahead == "1"
    finally:
        store.close()
