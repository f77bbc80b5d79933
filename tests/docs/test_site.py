"""The documentation is complete, and its links hold."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from chainwatch.config import Config, load
from chainwatch.model.verdict import Cause
from chainwatch.slurm.contract import CASES
from chainwatch.web.metrics import names
from dev import configuration, docs

ROOT = Path(__file__).parents[2]


def test_every_cause_is_explained() -> None:
    text = (ROOT / "docs" / "explanation" / "verdicts.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.M) == [cause.value for cause in Cause]


def test_the_reference_has_every_metric_and_every_key() -> None:
    assert set(re.findall(r"^\| `(chainwatch_\w+)`", docs.metrics(), re.M)) == names()
    text = configuration.page()
    for key in (*Config.model_fields, "hand_over", "url_file", "at_once", "textfile", "numeric_rollback", "each"):
        assert f"| `{key}` |" in text
    for section in (
        "chains.NAME.recovery.nodes",
        "alerts.channels.NAME` of `type: slack",
        "alerts.mute[]",
        "site.yaml",
    ):
        assert re.search(rf"^## .*{re.escape(section)}", text, re.M)
    assert "- `set_aside`: Damaged checkpoints are moved aside" in text


def test_every_command_is_listed_with_its_help() -> None:
    text = docs.commands()
    for command in ("run", "doctor", "alert test", "install-service", "lint", "runbook", "web", "status"):
        assert f"## {command}\n" in text


def test_every_case_of_the_contract_is_listed_with_its_promise() -> None:
    text = docs.contract()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) == {case.name for case in CASES}


def test_examples_in_the_documentation_are_valid_configurations(tmp_path: Path) -> None:
    from chainwatch.config.site import Site

    example = tmp_path / "example.yaml"
    found = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S):
            value = yaml.safe_load(block)
            if not set(value) <= {*Config.model_fields, *Site.model_fields}:
                value = {"chains": {"my-run": value}}  # a part of one
            for chain in value.get("chains", {}).values():
                chain.setdefault("batch", "train.sbatch")  # a page may show only what it is about
            if "forbid" in value:
                Site.model_validate(value)
            else:
                example.write_text(yaml.safe_dump(value))
                load(example)
            found += 1
    assert found >= 4


def told_commands() -> list[tuple[str, list[str]]]:
    """Every `chainwatch …` of the documentation: where it stands, and its words."""
    found = []
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("scrontab"))]
    pages += sorted((ROOT / "src" / "chainwatch" / "alerts" / "runbook").glob("*.md"))
    for page in pages:
        text = page.read_text()
        lines = re.findall(r"`chainwatch ([a-z][^`\n]*)`", text)
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M) or [text] * (page.suffix == ""):
            lines += re.findall(r"(?:^|\$\(|srun |\* )chainwatch ([a-z].*)", block, re.M)
        parts = [part.strip() for line in lines for part in f"chainwatch {line}".split("&&")]
        for line in (part.removeprefix("chainwatch ") for part in parts if part.startswith("chainwatch ")):
            words = re.split(r"[\s)|;]+", line.partition(" #")[0].strip())
            found.append((f"{page.name}: {line}", words))
    return found


def test_every_command_that_the_documentation_names_exists_with_its_options() -> None:
    from typer.main import get_command

    from chainwatch.cli.app import build

    commands = get_command(build()).commands  # type: ignore[attr-defined]
    told = told_commands()
    assert len(told) > 60
    for where, words in told:
        command = commands.get(words[0])
        assert command is not None, where
        if words[0] in {"latest", "verify", "exec", "sbatch"}:
            continue  # they read their options themselves
        if hasattr(command, "commands") and len(words) > 1:
            command = command.commands.get(words[1])
            assert command is not None, where
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, where


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("material") is None, reason="mkdocs-material is missing")
def test_the_site_builds_with_strict_links_and_needs_no_other_server(tmp_path: Path) -> None:
    assert docs.site(tmp_path) == 0
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Keep a training run alive" in page
    assert not re.search(r"""(?:src|<link[^>]*href)=["'](?:https?:)?//(?!squidfunk)""", page)
    assert (tmp_path / "site" / "runbook" / "blind.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("material") is None, reason="mkdocs-material is missing")
def test_a_broken_link_would_fail_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = docs.metrics
    monkeypatch.setattr(docs, "metrics", lambda: original() + "\n[gone](gone.md)\n")
    assert docs.site(tmp_path) != 0
