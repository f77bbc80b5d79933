"""Metrics without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.store import open_store
from chainwatch.store.counters import Counted, count


def test_a_textfile_is_written_for_node_exporter(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    store = open_store(tmp_path / "state")
    count(store, Counted.CHECKS, status="intact")
    store.close()
    file = tmp_path / "chainwatch.prom"
    assert main(["metrics", "--state", str(tmp_path / "state"), "--textfile", str(file)]) == 0
    assert 'chainwatch_checkpoint_checks_total{status="intact"} 1.0' in file.read_text()
    assert main(["metrics", "--state", str(tmp_path / "state"), "--openmetrics"]) == 0
    assert b"# EOF" in capfdbinary.readouterr().out


def test_a_missing_state_or_directory_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--state", str(tmp_path / "none")]) == 2
    assert "nothing was ever registered" in capsys.readouterr().err
    open_store(tmp_path / "state").close()
    assert main(["metrics", "--state", str(tmp_path / "state"), "--textfile", str(tmp_path / "gone" / "x.prom")]) == 2
    assert capsys.readouterr().err.startswith("chainwatch: cannot write")
