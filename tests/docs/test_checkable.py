"""Whatever the documentation says that a reader can check or run in the repository exists: tests, targets, modules."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from chainwatch.doctor import Level, lint

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMPARED = ROOT / "docs" / "explanation" / "compared.md"
COMING = ROOT / "docs" / "howto" / "coming-from.md"


def told(program: str) -> list[tuple[str, list[str]]]:
    """Every command of that program in the documentation: the page, and its words."""
    found = []
    for page in PAGES:
        text = page.read_text()
        lines = re.findall(rf"`(?:\.venv/bin/)?{program} ([^`\n]+)`", text)
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M):
            lines += re.findall(rf"^{program} (.*)", block, re.M)
        found += [(page.name, shlex.split(line, comments=True)) for line in lines]
    return found


def selected(path: Path, expression: str) -> bool:
    """Every word of a `-k` expression (`a or b`) is in the name of some test of the file, or of a parameter's function."""
    names = re.findall(r"^def (\w+)", path.read_text(), re.M)
    return all(any(word in name for name in names) for word in expression.split(" or "))


def test_every_test_that_a_page_names_exists() -> None:
    commands = told("pytest")
    assert len([page for page, _ in commands if page == COMPARED.name]) > 15
    for page, words in commands:
        path = ROOT / words[0]
        assert path.exists(), (page, words)
        if "-k" in words:
            assert selected(path, words[words.index("-k") + 1]), (page, words)
        assert set(words[1:]) <= {"-k", words[-1]}, (page, words)


def test_a_test_that_is_gone_would_be_seen() -> None:
    path = ROOT / "tests" / "recovery" / "test_decide.py"
    assert selected(path, "two_equal_failures or cannot_mend")
    assert not selected(path, "two_equal_failures or no_such_test")


def test_every_target_of_make_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+)(?:(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.M))
    commands = told("make")
    assert commands
    for page, words in commands:
        assert words[0] in targets, (page, words)


def test_every_module_of_ours_that_a_page_runs_exists() -> None:
    for page, words in told("python"):
        if words[:1] == ["-m"] and words[1].split(".")[0] in {"dev", "chainwatch"}:
            assert find_spec(words[1]) is not None, (page, words)


def test_each_situation_of_the_comparison_can_be_checked() -> None:
    rows = [line for line in COMPARED.read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 12
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 5, row
        assert all(cells), row
        assert "`pytest " in cells[-1] or "`make " in cells[-1], row


def test_the_pages_of_other_tools_link_to_their_sources() -> None:
    for section in re.split(r"^## ", COMING.read_text(), flags=re.M)[1:]:
        name = section.splitlines()[0]
        assert "https://" in section or "while" in name, name
    assert len(re.findall(r"\(https://", COMPARED.read_text())) > 10


@pytest.mark.parametrize("number", range(len(re.findall(r"```bash\n", COMING.read_text()))))
def test_the_scripts_of_those_who_come_over_are_scripts_without_a_known_gap(number: int) -> None:
    script = re.findall(r"```bash\n(.*?)```", COMING.read_text(), re.S)[number]
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [f.code for f in lint(script) if f.level is Level.PROBLEM] == []
