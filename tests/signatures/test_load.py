"""Signature files of users: what is wrong is named with file and line."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from chainwatch.evidence import LogFile, read_logs
from chainwatch.model.pattern import wrong_with
from chainwatch.model.verdict import Cause, Retry
from chainwatch.signatures import Matcher, SignatureError, builtin_signatures, load, user_signatures, xid_table

MATCH = r"'BlobStoreError: (?P<error>\w+)'"
GOOD = """\
family: mine
defaults: {cause: storage, retry: wait}
signatures:
- id: blob-store
  match: 'BlobStoreError: (?P<error>\\w+)'
  specificity: 80
  advice: Ask the blob people.
  examples: ['BlobStoreError: Timeout on shard 3']
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_users_file_extends_the_built_in_families(tmp_path: Path) -> None:
    (own,) = user_signatures(write(tmp_path, GOOD))
    assert (own.id, own.cause, own.retry) == ("mine/blob-store", Cause.STORAGE, Retry.WAIT)
    (hit,) = Matcher((*builtin_signatures(), own)).match(b"BlobStoreError: Timeout on shard 3", lambda _: [])
    assert (hit.signature, hit.extracted) == (own, {"error": "Timeout"})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "cause: storage",
            "cause: disk",
            r"mine\.yaml:4: mine/blob-store: cause 'disk' is not known; one of completed",
        ),
        ("retry: wait", "retry: maybe", r"mine\.yaml:4: .*retry 'maybe' is not known"),
        ("specificity: 80", "specificity: 180", r"mine\.yaml:4: .*from 0 to 100"),
        ("specificity: 80", "specificity: high", r"mine\.yaml:6: `specificity` has the wrong kind"),
        ("  advice:", "  advise:", r"mine\.yaml:7: field `advise` is not known"),
        ("(?P<error>", "(?=x)(?P<error>", r"mine\.yaml:5: .*no pattern in RE2 syntax.*look-around"),
        ("Timeout on", "Time out on", None),
        ("BlobStoreError: Timeout", "Blob: Timeout", r"mine\.yaml:4: .*its own example is not matched"),
        ("family: mine", "family: [", r"mine\.yaml:\d+: not valid YAML"),
        ("- id: blob-store\n ", "-", r"mine\.yaml:4: a signature needs `id`"),
        ("signatures:", "signature:", r"mine\.yaml:3: field `signature` is not known"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path: Path, old: str, new: str, says: str | None) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    if says is None:
        assert user_signatures(path)
        return
    with pytest.raises(SignatureError, match=says):
        user_signatures(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (MATCH, "''", "mine.yaml:5: mine/blob-store: match: '' is met by an empty line; words"),
        (MATCH, "x?", "mine.yaml:5: mine/blob-store: match: 'x?' is met by an empty line"),
        (MATCH, "['BlobStoreError', '.*']", "mine.yaml:5: mine/blob-store: match: '.*' is met by"),
        (MATCH, ".+", "mine.yaml:5: mine/blob-store: match: '.+' is met by nearly every line"),
        (MATCH, "[]", "mine.yaml:5: mine/blob-store: `match` has no pattern"),
        ("  advice:", "  unless: 'a*'\n  advice:", "mine.yaml:7: mine/blob-store: unless: 'a*' is met by an empty line"),
        ("retry: wait", "retry: wait, not_after: '^'", "mine.yaml:2: defaults: not_after: '^' is met by an empty line"),
    ],
)  # fmt: skip
def test_a_pattern_that_every_line_meets_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    """The kind: a rule that is right by its syntax, and finds its text in every healthy log."""
    assert old in GOOD
    with pytest.raises(SignatureError) as refused:
        user_signatures(write(tmp_path, GOOD.replace(old, new)))
    assert str(refused.value).startswith(f"{tmp_path}/{says}")


def test_no_pattern_of_our_own_is_met_by_every_line() -> None:
    assert [p for signature in builtin_signatures() for p in signature.patterns if wrong_with(p)] == []


def test_two_signatures_of_one_name_are_refused(tmp_path: Path) -> None:
    body = GOOD.partition("signatures:\n")[2]
    with pytest.raises(SignatureError, match=r"already defined at .*mine\.yaml:4"):
        user_signatures(write(tmp_path, GOOD + body))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="cannot be read"):
        user_signatures(tmp_path / "gone.yaml")


def test_an_empty_file_has_no_signatures(tmp_path: Path) -> None:
    assert user_signatures(write(tmp_path, "")) == ()


def test_a_word_like_no_is_the_word_and_not_false(tmp_path: Path) -> None:
    (own,) = user_signatures(write(tmp_path, GOOD.replace("retry: wait", "retry: no")))
    assert own.retry is Retry.NO


def test_the_xid_table_has_a_class_for_every_code() -> None:
    kinds = {"hardware", "either", "application", "effect", "informational", "by_severity", "by_action"}
    assert {row.kind for row in xid_table().values()} <= kinds
    assert all(row.meaning and row.action for row in xid_table().values())


def test_a_catastrophic_pattern_of_a_users_file_cannot_stall_the_reading(tmp_path: Path) -> None:
    patterns = [r"(a+)+$", r"(x|x|x)*y", r"^(\w+\s?)*!$", r"(?:.*?a){12}b"]
    lines = "".join(
        f"- {{id: p{i}, match: {pattern!r}, cause: user_code, specificity: 50}}\n" for i, pattern in enumerate(patterns)
    )
    own = tmp_path / "own.yaml"
    own.write_text("family: mine\nsignatures:\n" + lines)
    log = tmp_path / "log"
    log.write_text("".join(f"{word * (1 << 18)}?\n" for word in ("a", "x", "w ")))
    began = time.process_time()
    read_logs([LogFile(str(log))], matcher=Matcher(user_signatures(own)))
    assert time.process_time() - began < 10, "linear in the text; a backtracking engine would never end"


def test_the_manual_names_every_field_and_its_example_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "signatures.md").read_text()
    table = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert {f"`{name}`" for name in load._FIELDS} - {"`table`"} <= set(re.findall(r"`\w+`", table))
    own = tmp_path / "mine.yaml"
    own.write_text(page.partition("```yml\n")[2].partition("```")[0])
    assert [s.id for s in user_signatures(own)] == ["mine/blob-store"]
