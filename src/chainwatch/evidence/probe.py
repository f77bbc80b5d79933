"""What the program on the nodes printed, as typed values. Its words come from machines that are sick: nothing is trusted.

See `chainwatch.job.probe` for what it prints.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from chainwatch.model.probe import STEP_LABEL, Fault, Gpu, NodeLook, ProbeReport, Rank, RankState
from chainwatch.slurm.probing import ANSWERED

_PIECE = re.compile(rf"{STEP_LABEL} (\S+) (?:{ANSWERED}|(\d+)/(\d+) ([A-Za-z0-9+/=]+))\s*$")
_LARGEST = 4 << 20
"""Bytes of one node's facts."""
BUSY = 0.02
"""Processors from which on a rank counts as working: what an idle interpreter's threads use is far below."""
MOVES = 64 << 10
"""Bytes between two looks from which on a rank counts as moving data."""


def read_probe(text: str, nodes: Sequence[str]) -> ProbeReport:
    """The report of one probe; `nodes`: those of the job. A node that answered without facts has a `problem`."""
    pieces: dict[str, dict[int, str]] = defaultdict(dict)
    counts: dict[str, int] = {}
    for line in text.splitlines():
        for found in _PIECE.finditer(line):
            node = found[1]
            counts.setdefault(node, 0)
            if found[2]:
                counts[node] = int(found[3])
                pieces[node][int(found[2])] = found[4]
    looks, stacks = [], {}
    for node in sorted(counts):
        facts = _unpacked(pieces[node], counts[node])
        looks.append(_look(node, facts))
        stacks.update(_stacks(facts))
    silent = tuple(node for node in nodes if node not in counts)
    return ProbeReport(tuple(looks), silent, stacks=stacks)


def _unpacked(pieces: Mapping[int, str], count: int) -> Mapping[str, Any]:
    if not count or set(pieces) != set(range(1, count + 1)):
        return {}
    try:
        packed = base64.b64decode("".join(pieces[n] for n in range(1, count + 1)), validate=True)
        opener = zlib.decompressobj()
        facts = json.loads(opener.decompress(packed, _LARGEST))
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _look(node: str, facts: Mapping[str, Any]) -> NodeLook:
    if not facts:
        return NodeLook(node, problem="no Python there could run the probe")
    return NodeLook(
        node,
        ranks=tuple(rank for each in _list(facts, "ranks") if (rank := _rank(each)) is not None),
        gpus=tuple(
            Gpu(_whole(each.get("index")), _known(each.get("use")), _known(each.get("ecc")))
            for each in _list(facts, "gpus")
            if isinstance(each, dict)
        ),
        gpu_problem=_text(facts.get("gpu_problem")),
        faults=tuple(
            Fault(float(_whole(each[0])), _text(each[1]))
            for each in _list(facts, "faults")
            if isinstance(each, list) and len(each) == 2
        ),
        problem=_text(facts.get("problem")),
    )


def _rank(facts: object) -> Rank | None:
    if not isinstance(facts, dict) or _known(facts.get("rank")) is None:
        return None
    cpu = facts.get("cpu")
    cpu = float(cpu) if isinstance(cpu, int | float) and not isinstance(cpu, bool) and 0 <= cpu < 1e6 else 0.0
    moved = _whole(facts.get("bytes"))
    states = facts.get("states")
    return Rank(
        number=_whole(facts.get("rank")),
        step=_text(facts.get("step")),
        pid=_whole(facts.get("pid")),
        name=_text(facts.get("name")),
        state=_state(states if isinstance(states, dict) else {}, _whole(facts.get("processes")), cpu, moved),
        cpu=cpu,
        moved=moved,
        wait=_text(facts.get("wait")),
        expected_here=_whole(facts.get("expected")),
        world=_whole(facts.get("world")),
    )


def _state(states: Mapping[str, Any], alive: int, cpu: float, moved: int) -> RankState:
    if not alive:
        return RankState.GONE
    if states.get("t"):
        return RankState.TRACED
    if states.get("T"):
        return RankState.STOPPED
    if cpu >= BUSY or moved >= MOVES:
        return RankState.RUNS
    return RankState.BLOCKED if states.get("D") else RankState.IDLE


def _stacks(facts: Mapping[str, Any]) -> dict[int, str]:
    stacks = facts.get("stacks")
    if not isinstance(stacks, dict):
        return {}
    return {int(rank): str(text) for rank, text in stacks.items() if str(rank).isdigit() and text}


def _list(facts: Mapping[str, Any], name: str) -> list[Any]:
    value = facts.get(name)
    return value[:4096] if isinstance(value, list) else []


def _text(value: object) -> str:
    return "".join(c if c.isprintable() else " " for c in value[:300]) if isinstance(value, str) else ""


def _known(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _whole(value: object) -> int:
    return _known(value) or 0
