"""Each framework's page can be used as it stands: its script is a script without known gaps, its chain a configuration."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from chainwatch.checkpoints.formats import FORMATS
from chainwatch.config import Config
from chainwatch.config.models import HandOver
from chainwatch.doctor import Level, lint
from chainwatch.evidence.progress import ProgressReader

FOLDER = Path(__file__).parents[2] / "docs" / "howto" / "frameworks"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_script_is_one_and_has_no_known_gap(page: Path) -> None:
    [script] = blocks(page, "bash")
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [f.code for f in lint(script) if f.level is Level.PROBLEM] == []
    assert {f.code for f in lint(script)} <= {"no_signal"}, "a signal that a program does not handle ends it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_chain_is_right_and_fits_the_script(page: Path) -> None:
    [text] = blocks(page, "yaml")
    [script] = blocks(page, "bash")
    config = Config.model_validate(yaml.safe_load(text))
    [(name, chain)] = config.chains.items()
    assert f"--job-name={name} " in script
    assert chain.checkpoints is not None
    assert chain.checkpoints.format in {"auto", *FORMATS}
    assert ("chainwatch latest" in script) is (chain.checkpoints.hand_over is HandOver.COMMAND)
    ProgressReader(chain.logs.profile, chain.logs.progress)
    assert chain.done.step or chain.done.mark or chain.done.file


def test_every_page_is_listed_in_the_overview_and_in_the_menu() -> None:
    overview, menu = (FOLDER / "index.md").read_text(), (FOLDER.parents[2] / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f"({page.name})" in overview
        assert f"howto/frameworks/{page.name}" in menu
