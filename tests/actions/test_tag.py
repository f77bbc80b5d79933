"""The tag that makes a job findable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.actions.tag import Tag, find, join, new_token, short_instance

TAG = Tag("0123abcd", "llama-7b.v2", "0123456789abcdef")


@pytest.mark.parametrize("own", [None, "", "mine", "a|b\nc", "mit ünï ☃ 'quotes' \"two\"", "x=1,y=2", "chainwatch=no"])
def test_the_users_comment_stays_and_the_tag_is_found_in_it(own: str | None) -> None:
    comment = join(own, TAG)
    assert find(comment) == TAG
    assert comment.startswith(own or "")


def test_a_tag_is_found_in_a_submit_line() -> None:
    assert find("", f"sbatch --parsable --comment={join('mine', TAG)} --qos=x job.sh") == TAG


def test_an_older_tag_is_replaced_not_repeated() -> None:
    newer = Tag(TAG.instance, TAG.chain, new_token())
    comment = join(join("mine", TAG), newer)
    assert comment == f"mine {newer}"
    assert find(comment) == newer


def test_of_two_tags_the_last_counts_for_requeue_scripts_copy_comments_on() -> None:
    newer = Tag(TAG.instance, "other", new_token())
    assert find(f"{TAG} copied {newer}") == newer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "chainwatch=",
        "chainwatch=0123abcd/llama/0123",
        "chainwatch=0123abcd/llama/0123456789abcdef0",
        "chainwatch=0123ABCD/llama/0123456789abcdef",
        "chainwatch=0123abcd/../../etc/0123456789abcdef",
        "chainwatch=0123abcd/-x/0123456789abcdef",
    ],
)
def test_what_only_looks_like_a_tag_is_none(text: str) -> None:
    assert find(text) is None


@given(st.text(max_size=80))
def test_no_comment_of_anybody_breaks_the_tag(own: str) -> None:
    assert find(join(own, TAG)) == TAG


def test_tokens_differ_and_the_instance_is_short() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert short_instance("0123abcd-4567-89ab-cdef-0123456789ab") == "0123abcd"
