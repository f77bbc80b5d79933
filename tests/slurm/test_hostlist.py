"""Node lists in brackets, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.slurm.hostlist import compress, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,07]", ["n01", "n02", "n03", "n07"]),
        ("nid0[0099,0156-0157,0162]", ["nid00099", "nid00156", "nid00157", "nid00162"]),
        ("d09n04s[01-02],d09n05s02", ["d09n04s01", "d09n04s02", "d09n05s02"]),
        ("node-[63-65]", ["node-63", "node-64", "node-65"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("a[1-2]-ib,b", ["a1-ib", "a2-ib", "b"]),
        ("login.cluster.example", ["login.cluster.example"]),
    ],
)
def test_ranges_padding_and_several_brackets_are_expanded_in_order(text: str, names: list[str]) -> None:
    assert expand(text) == tuple(names)


@pytest.mark.parametrize("text", ["", "(null)", "None assigned", "N/A", "n/a", "Unknown", "  "])
def test_every_way_to_print_no_nodes_is_no_nodes(text: str) -> None:
    assert expand(text) == ()


def test_what_is_no_range_is_left_as_it_stands() -> None:
    assert expand("n[5-2]") == ("n5-2",)
    assert expand("gpu[a,b]") == ("gpua", "gpub")
    assert expand("broken[1-2") == ("broken[1-2",)


def test_a_range_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand("n[1-999999999]")
    with pytest.raises(ValueError, match="more than"):
        expand("n[1-1000]x[1-1000]")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1", "n2", "n3", "x"], "n[1-3],x"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10"], "n[9-10]"),
        (["n3", "n1"], "n[1,3]"),
        (["a", "a"], "a"),
        ([], ""),
    ],
)
def test_names_are_compressed_to_the_usual_form(names: list[str], text: str) -> None:
    assert compress(names) == text


@given(st.sets(st.from_regex(r"(n|gpu-|r1c)[0-9]{1,4}(-ib)?", fullmatch=True), max_size=40))
def test_what_is_compressed_expands_to_the_same_names(names: set[str]) -> None:
    assert set(expand(compress(names))) == names
