"""Reading what nodes printed: mixed, cut, hostile, or nothing at all."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from chainwatch.evidence.probe import read_probe
from chainwatch.model.probe import RankState

RANK = {"rank": 3, "step": "0", "pid": 7, "name": "python", "processes": 2, "cpu": 0.0, "bytes": 0, "states": {"S": 2}}


def printed(node: str, facts: Any, size: int = 40) -> list[str]:
    packed = base64.b64encode(zlib.compress(json.dumps(facts).encode())).decode()
    pieces = [packed[i : i + size] for i in range(0, len(packed), size)]
    return [f"chainwatch-probe {node} {n}/{len(pieces)} {piece}" for n, piece in enumerate(pieces, 1)]


def test_pieces_of_many_nodes_may_be_mixed_and_noise_stands_between_them() -> None:
    first, second = (printed(n, {"ranks": [{**RANK, "rank": i}]}) for i, n in enumerate(("n1", "n2")))
    lines = [line for pair in zip(first, second, strict=False) for line in (pair[1], "module: loaded", pair[0])]
    lines += first[len(second) :] + second[len(first) :] + ["chainwatch-probe n1 ran", "chainwatch-probe n3 ran"]
    report = read_probe("\n".join(lines), ["n1", "n2", "n3", "n4"])
    assert [(look.node, [r.number for r in look.ranks]) for look in report.nodes] == [
        ("n1", [0]),
        ("n2", [1]),
        ("n3", []),
    ]
    assert (report.nodes[2].problem, report.silent) == ("no Python there could run the probe", ("n4",))


def test_a_node_whose_pieces_are_not_all_there_has_answered_without_facts() -> None:
    lines = printed("n1", {"ranks": [RANK] * 50})
    assert len(lines) > 2
    report = read_probe("\n".join(lines[:-1]), ["n1"])
    assert (report.nodes[0].ranks, bool(report.nodes[0].problem), report.silent) == ((), True, ())


@pytest.mark.parametrize(
    "facts",
    [
        [], "x", {"ranks": 3}, {"ranks": [None, 5, {"rank": "3"}, {"rank": True}, {"rank": -1}]},
        {"gpus": "x", "faults": {"a": 1}, "stacks": [1], "problem": 7},
    ],
)  # fmt: skip
def test_facts_of_another_kind_are_left_out(facts: Any) -> None:
    look = read_probe("\n".join(printed("n1", facts)), ["n1"]).nodes[0]
    assert (look.ranks, look.gpus) == ((), ())


def test_texts_are_cut_and_printable() -> None:
    look = read_probe("\n".join(printed("n1", {"problem": "\x1b[31m" + "x" * 1000, "ranks": [RANK]})), ["n1"]).nodes[0]
    assert look.problem.isprintable()
    assert len(look.problem) <= 300


def test_a_compressed_bomb_is_not_unpacked() -> None:
    packed = base64.b64encode(zlib.compress(b'{"a": "' + b"x" * (64 << 20) + b'"}')).decode()
    assert read_probe(f"chainwatch-probe n1 1/1 {packed}", ["n1"]).nodes[0].problem


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, RankState.IDLE),
        ({"cpu": 0.5}, RankState.RUNS),
        ({"bytes": 1 << 20}, RankState.RUNS),
        ({"states": {"D": 1}}, RankState.BLOCKED),
        ({"states": {"D": 1}, "bytes": 1 << 20}, RankState.RUNS),
        ({"states": {"T": 1, "S": 1}, "cpu": 0.5}, RankState.STOPPED),
        ({"states": {"t": 1}}, RankState.TRACED),
        ({"processes": 0, "states": {"Z": 1}}, RankState.GONE),
    ],
)
def test_what_a_rank_did_between_the_looks(change: dict[str, Any], state: RankState) -> None:
    look = read_probe("\n".join(printed("n1", {"ranks": [{**RANK, **change}]})), ["n1"]).nodes[0]
    assert [r.state for r in look.ranks] == [state]
