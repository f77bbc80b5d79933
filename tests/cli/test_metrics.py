"""Metrics without a server."""

from __future__ import annotations

from pathlib import Path

import typer
from click.testing import Result
from typer.testing import CliRunner

from chainwatch.cli.metrics import metrics
from chainwatch.store import open_store
from chainwatch.store.counters import Counted, count

app = typer.Typer()
app.command()(metrics)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_textfile_is_written_for_node_exporter(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    count(store, Counted.CHECKS, status="intact")
    store.close()
    file = tmp_path / "chainwatch.prom"
    assert run("--state", str(tmp_path / "state"), "--textfile", str(file)).exit_code == 0
    assert 'chainwatch_checkpoint_checks_total{status="intact"} 1.0' in file.read_text()
    assert "# EOF" in run("--state", str(tmp_path / "state"), "--openmetrics").output


def test_a_missing_state_or_directory_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = run("--state", str(tmp_path / "none"))
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    assert "nothing was ever registered" in done.output
    open_store(tmp_path / "state").close()
    done = run("--state", str(tmp_path / "state"), "--textfile", str(tmp_path / "gone" / "x.prom"))
    assert (done.exit_code, "cannot write" in done.output) == (2, True)
