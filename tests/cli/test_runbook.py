"""Every alert has its page."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from typer.testing import CliRunner

from chainwatch.alerts import Kind
from chainwatch.cli.runbook import pages, runbook

app = typer.Typer()
app.command()(runbook)
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "chainwatch.rules.yml"


def test_every_kind_of_alert_and_every_rule_has_a_page_and_no_page_is_orphaned() -> None:
    named = set(re.findall(r"chainwatch runbook (\w+)", RULES.read_text())) | {kind.value for kind in Kind}
    assert set(pages()) == named


def test_every_page_says_what_it_means_and_what_to_do() -> None:
    for name, text in pages().items():
        assert text.startswith("# "), name
        assert "**What it means.**" in text, name
        assert "**What to do.**" in text or name == "other", name
        assert max(map(len, text.splitlines())) <= 125, name


def test_every_command_on_a_page_exists() -> None:
    from typer.main import get_command

    from chainwatch.cli.app import app as whole

    known = set(get_command(whole).commands)  # type: ignore[attr-defined]
    used = {m for text in pages().values() for m in re.findall(r"`chainwatch ([a-z-]+)", text)}
    assert used <= known


def test_a_page_is_printed_and_a_wrong_name_is_helped() -> None:
    runner = CliRunner()
    assert "Silence is never read as an answer" in runner.invoke(app, ["blind"]).output
    assert "blind" in runner.invoke(app, []).output
    done = runner.invoke(app, ["blnd"])
    assert (done.exit_code, "did you mean blind?" in done.output) == (1, True)
