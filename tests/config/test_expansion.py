"""Variables in paths are expanded once, when the configuration is read: what is stored is what was meant then."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.config import Chain, load
from tests.config.writing import Desk


def test_what_was_expanded_once_is_not_expanded_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNS", "/scratch/ada")
    text = "chains: {a: {batch: $RUNS/train.sh, checkpoints: $RUNS/$$tmp, environment: $RUNS/env, logs: {files: [~/*.log]}}}"
    chain = desk.load(text).chains["a"]
    stored = chain.model_dump(mode="json")
    monkeypatch.setenv("RUNS", "/elsewhere")
    monkeypatch.setenv("tmp", "no")
    monkeypatch.setenv("HOME", "/nowhere")
    assert Chain.stored(stored) == chain
    assert (str(chain.batch), chain.environment) == ("/scratch/ada/train.sh", "/scratch/ada/env")
    assert chain.checkpoints is not None
    assert str(chain.checkpoints.directory) == "/scratch/ada/$tmp"


def test_a_dollar_in_the_name_of_the_files_own_directory_is_a_dollar(tmp_path: Path) -> None:
    folder = tmp_path / "run$1 ${x}"
    folder.mkdir()
    (folder / "c.yaml").write_text("chains: {a: {batch: t.sh, checkpoints: saved, directory: sub}, b: {batch: t.sh}}")
    chains = load(folder / "c.yaml").config.chains
    assert chains["a"].batch == folder / "t.sh"
    assert chains["a"].checkpoints is not None
    assert chains["a"].checkpoints.directory == folder / "sub" / "saved"
    assert chains["b"].directory == folder


def test_a_doubled_dollar_begins_a_relative_path_too(desk: Desk) -> None:
    assert desk.load("chains: {a: {batch: $$x/train.sh}}").chains["a"].batch == desk.folder / "$x/train.sh"
