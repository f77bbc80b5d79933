"""Words of a command line that are no name and no number: one plain sentence, and the exit code that is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.store import open_store
from tests.store.build import record


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = open_store(tmp_path / "state")
    store.add_chain(record("llama-8b"))
    store.close()
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["diagnose", "adopt", "init"])
@pytest.mark.parametrize("number", ["9" * 5000, str(2**32)])
def test_a_number_that_no_job_can_have_is_no_job_id(
    state: Path, command: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, number]) == 2
    said = capsys.readouterr().err
    assert f"{number[:40]!r} is no job id" in said
    assert len(said) < 300


@pytest.mark.parametrize("word", ["-1", "0", "x", "12_3", "12.batch"])
def test_only_a_whole_job_is_adopted(state: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", "--", word]) == 2
    assert f"{word!r} is no job id" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["history", "explain", "pause", "resume", "stop", "retry", "done", "forget", "probe", "logs"]
)
def test_a_chain_whose_name_is_no_utf_8_is_simply_not_known(
    state: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "run-\udcff"]) == 1
    assert capsys.readouterr().err.startswith("chainwatch: no chain is named run-\\xff; ")


def test_a_reason_that_is_no_utf_8_is_kept_as_it_can_be_shown(state: Path) -> None:
    assert main(["pause", "llama-8b", "--why", "caf\udce9"]) == 0
    store = open_store(state / "state")
    try:
        assert "xe9" in repr((store.chain("llama-8b"), store.decisions("llama-8b")))
    finally:
        store.close()


def test_a_log_in_place_of_a_job_id_is_told_how_it_is_read(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "my train.log").write_text("step 1\n")
    assert main(["diagnose", "my train.log"]) == 2
    assert "`chainwatch diagnose --log 'my train.log'` reads that file" in capsys.readouterr().err
