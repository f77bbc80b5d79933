"""Hostile text loses its power, and honest text stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.alerts.text import defused, fenced, markdown
from chainwatch.model.text import clean, clip, redact


@given(st.text(), st.integers(min_value=1, max_value=200))
def test_cleaned_text_has_no_control_characters_and_its_length(text: str, limit: int) -> None:
    out = clean(text, limit)
    assert len(out) <= limit
    assert all(c == "\n" or (c.isprintable() or c.isspace()) for c in out)
    assert not set(out) & set("\x1b\x07\x9b\u202e\u2066\u200b\ufeff\r")


def test_terminal_escapes_are_taken_out_whole() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07end\x1b]8;;http://evil\x1b\\link", 100) == "red endlink"
    assert clean("safe\u202eexe.txt", 100) == "safeexe.txt"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    out = clip("Traceback " + "x" * 500 + " CUDA error", 60)
    assert out.startswith("Traceback")
    assert out.endswith("CUDA error")


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz",
        "wandb_api_key: 0123456789abcdef0123456789abcdef",
        "Authorization: Bearer abcdef0123456789",
        "clone https://me:abcdef0123456789@git.example.org/x failed",
        "posting to https://hooks.slack.com/services/T0/B0/abcdef0123456789",
        '{"password": "abcdef0123456789"}',
        "AKIAABCDEF0123456789",
    ],
)
def test_what_looks_like_a_credential_is_not_quoted(text: str) -> None:
    out = redact(text)
    assert "[secret]" in out
    assert "abcdef" not in out.lower()
    assert "0123456789" not in out


@pytest.mark.parametrize(
    "text", ["step 4000 loss 2.31 tokens=123456789", "RuntimeError: CUDA error: device-side assert"]
)
def test_an_ordinary_line_is_quoted_verbatim(text: str) -> None:
    assert redact(clean(text, 200)) == text


@given(st.text(alphabet="`a\n~", max_size=40))
def test_text_cannot_close_its_own_code_fence(text: str) -> None:
    block = fenced(text)
    fence = block.split("\n", 1)[0]
    assert fence.strip("`") == ""
    assert fence not in text


@given(st.text(max_size=60))
def test_no_word_becomes_a_mention(text: str) -> None:
    for out in (defused(text), markdown(text)):
        assert "@channel" not in out
        assert all(out[i + 1 : i + 2] == "\u200b" for i, c in enumerate(out) if c == "@")


def test_markdown_in_a_text_is_shown_rather_than_obeyed() -> None:
    assert markdown("[x](http://evil) *b* <b> # h") == r"\[x\]\(http\://evil\) \*b\* \<b\> \# h"
