"""YAML's own surprises."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from chainwatch.config import ConfigError, load
from chainwatch.config.document import read
from tests.config.writing import Desk


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("chains:\n\ta: 1\n", 2, "a tab indents here"),
        ("chains:\n  a: 1\n\tb: 2\n", 3, "a tab indents here"),
        ("chains: {a: [}\n", 1, "is no valid YAML"),
        ("chains:\n  a: 1\n b: 2\n", 3, "indented differently"),
        ("state /x\npoll: 3s\n", 2, "is no valid YAML"),
        ("chains:\n  a: b: c\n", 2, "a second `: ` in one line"),
        ("chains: *nothing\n", 1, "begins with * needs quotes"),
        ("a: 1\n---\nb: 2\n", 2, "holds a second document"),
        ("state: 'open\n", 2, "is no valid YAML"),
        ("a: \x01\n", 1, "control character U+0001"),
        ("- a\n- b\n", 1, "keys and values are expected at the top"),
        ("just words\n", 1, "keys and values are expected at the top"),
    ],
)
def test_a_syntax_error_names_its_line_and_what_to_mend(desk: Desk, text: str, line: int, said: str) -> None:
    [problem] = desk.problems(text)
    assert problem.startswith(f"{line}: ")
    assert said in problem


def test_a_key_given_twice_is_refused_with_both_lines(desk: Desk) -> None:
    assert desk.problems("poll: 30s\nstate: /x\npoll: 60s\n") == ["3: poll: is given twice (first in line 1)"]


def test_an_empty_file_is_an_empty_configuration(desk: Desk) -> None:
    assert desk.load("").chains == {}
    assert desk.load("# only words\n").chains == {}
    assert desk.load("chains:\n").chains == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key(desk: Desk) -> None:
    path = desk.write("")
    path.write_bytes("\ufeffpoll: 30s\n".encode())
    assert load(path).config.poll.total_seconds() == 30


def test_text_that_is_not_utf_8_is_refused_with_its_line(desk: Desk) -> None:
    path = desk.write("")
    path.write_bytes("state: /x\n# gr\xfc\xdfe\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"chainwatch\.yaml:2: is not UTF-8"):
        load(path)


@pytest.mark.parametrize("word", ["no", "yes", "on", "off", "~x", "1e-4", "0.10", "12", "1_000", "2026-09-01", "22:30"])
def test_a_word_stays_as_it_was_written_where_a_text_is_expected(desk: Desk, word: str) -> None:
    """YAML 1.1 makes false of `no`, 1350 of 22:30, 0.1 of 0.10 and a date of 2026-09-01."""
    chain = desk.chain(f"cluster: {word}\nargs: [--x, {word}]\n")
    assert chain.cluster == word
    assert chain.args == ("--x", word)


def test_an_octal_number_is_refused_rather_than_read_as_another_one(desk: Desk) -> None:
    [problem] = desk.chain_problems("recovery:\n  retries: 010\n")
    assert problem == (
        "5: chains.a.recovery.retries: YAML reads 010 as an octal number: write it without the leading zero, or in "
        "quotes"
    )
    assert desk.chain("args: ['010']\n").args == ("010",)


def test_names_that_yaml_takes_for_something_else_are_names(desk: Desk) -> None:
    assert set(desk.load("defaults: {batch: x}\nchains: {no: , 1e3: , 2026-09-01: , 08: }\n").chains) == {
        "no", "1e3", "2026-09-01", "08",
    }  # fmt: skip


def test_anchors_and_merges_work(desk: Desk) -> None:
    config = desk.load(
        """
        defaults: {batch: x.sh}
        chains:
          base: &base
            recovery: &r {retries: 7}
            mode: observe
          other:
            <<: *base
            mode: act
            recovery: {<<: [*r], retries_per_failure: 5}
        """
    )
    other = config.chains["other"]
    assert (other.mode, other.recovery.retries, other.recovery.retries_per_failure) == ("act", 7, 5)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{n}: &{n} [{', '.join([f'*{chr(ord(n) - 1)}'] * 9)}]\n" for n in "bcdefghij"
        ),
        "a: &a {b: *a}\n",
        "a: &a [*a]\n",
        "a: " + "[" * 5000,
        "a: " + "{b: " * 5000,
        "a: " + "[" * 100 + "]" * 100,
    ],
    ids=["laughs", "recursive-mapping", "recursive-list", "brackets", "braces", "deep"],
)  # fmt: skip
def test_a_bomb_is_refused_in_a_moment(desk: Desk, text: str) -> None:
    path = desk.write(text)
    began = time.monotonic()
    with pytest.raises(ConfigError):
        load(path)
    assert time.monotonic() - began < 30


def test_a_file_of_too_many_values_is_refused_before_it_is_read_to_its_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainwatch.config.document._MOST_NODES", 500)
    path = desk.write("x: [" + "1, " * 600 + "{never closed\n")
    with pytest.raises(ConfigError, match="more than 500 values"):
        load(path)


def test_a_file_that_is_too_large_is_not_read(desk: Desk) -> None:
    path = desk.write("")
    with path.open("wb") as f:
        f.truncate(1 << 40)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load(path)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!!binary", "!mine"])
def test_no_tag_makes_an_object(desk: Desk, tag: str) -> None:
    [problem, *_] = desk.problems(f"state: {tag} 'touch /tmp/x'\n")
    assert "is not allowed" in problem
    [problem, *_] = desk.problems(f"chains: {tag} ['touch /tmp/x']\n")
    assert "is not allowed" in problem


def test_a_missing_file_and_an_empty_directory_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: cannot be read: No such file"):
        load(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match=r"holds no \*\.yaml file"):
        load(tmp_path)


def test_every_value_knows_its_line_and_the_path_of_its_key(desk: Desk) -> None:
    tree = read(desk.write("a:\n  b:\n    - x\n    - {c: y}\n"), [])
    spot = tree.at(("a", "b", 1, "c"))
    assert (spot.line, spot.key, spot.value) == (4, "a.b.1.c", "y")
    assert tree.at(("a", "nowhere", "b", 0)).key == "a.b.0", "what the tree does not have is passed over"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"batch: {'x' * 5000}", "no file can be called so"),
        (f"done: {{file: /{'x' * 300}}}", "no file can be called so"),
        (f"done: {{step: 0x{'f' * 5000}}}", "is too large"),
        (f"done: {{step: {'9' * 5000}}}", "is no int"),
        (f"done: {{step: '{2**63}'}}", "at most 9.22"),
        (f"done: {{step: '{'9' * 5000}'}}", "expected"),
        (f"recovery: {{retries: {2**63}}}", "is too large"),
        (r'directory: "/a/\uD800"', "half a character"),
        (r'"\uDC00": 1', "half a character"),
        (r'args: ["--name=\uD800"]', "half a character"),
    ],
)
def test_what_the_machine_cannot_hold_is_refused_with_file_and_line_in_few_words(
    desk: Desk, line: str, said: str
) -> None:
    batch = "" if line.startswith("batch") else "    batch: b.sh\n"
    problems = desk.problems(f"chains:\n  a:\n{batch}    {line}\n")
    assert any(said in each for each in problems), problems
    assert all(each.startswith(f"{4 if batch else 3}: ") and len(each) < 400 for each in problems), problems


def test_a_configuration_with_a_name_that_no_file_can_have_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        load(tmp_path / ("x" * 5000))
