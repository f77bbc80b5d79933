"""No cut of a real torch, pickle or distributed file goes unseen, wherever it falls; nothing that is fed in raises."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainwatch.checkpoints.files import examine

FILES = (
    "good/torch_zip_align/ckpt_100.pt",
    "good/torch_zip_nocrc/ckpt_200.pt",
    "good/torch_legacy/ckpt_000300.pt",
    "good/lightning/single/last.ckpt",
    "good/deepspeed/zero1_resize_w4to2/global_step30/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "good/accelerate/safe_w1/checkpoints/checkpoint_3/random_states_0.pkl",
    "good/dcp/w2/step_30/__1_0.distcp",
    "good/dcp/w2/step_30/.metadata",
    "good/megatron/torch_dist_w2/iter_0000300/common.pt",
)


def boundaries(data: bytes) -> set[int]:
    """Every place where a structure begins or ends: zip headers, records, directory, pickle frames."""
    found = set(range(min(len(data), 40))) | {len(data) - back for back in range(1, 120) if back < len(data)}
    for magic in (
        b"PK\x03\x04",
        b"PK\x01\x02",
        b"PK\x05\x06",
        b"PK\x06\x06",
        b"PK\x06\x07",
        b"PK\x07\x08",
        b"\x80\x02",
    ):
        at = data.find(magic)
        while at >= 0:
            found |= {at + shift for shift in (-1, 0, 1, 4, 22, 30, 46) if 0 <= at + shift < len(data)}
            at = data.find(magic, at + 1)
    return found


@pytest.mark.parametrize("name", FILES)
def test_no_cut_goes_unseen(name: str, cases: Path, tmp_path: Path) -> None:
    data = (cases / name).read_bytes()
    whole = examine(str(cases / name))
    assert whole.ok
    random.seed(name)
    cuts = sorted(boundaries(data) | {random.randrange(len(data)) for _ in range(300)}, reverse=True)
    path = tmp_path / Path(name).name
    path.write_bytes(data)
    with path.open("r+b") as file:
        for cut in cuts:
            file.truncate(cut)
            finding = examine(str(path))
            # A file of items that ends after one of them is whole; `.metadata` knows that there are more.
            fewer = finding.kind == "distcp" and finding.ok and finding.facts["items"] < whole.facts["items"]
            assert fewer or not finding.ok, f"cut at {cut} of {len(data)}"


@pytest.mark.parametrize("name", [name for name in FILES if "legacy" not in name])
def test_no_zeroed_tail_goes_unseen(name: str, cases: Path, tmp_path: Path) -> None:
    data = (cases / name).read_bytes()
    random.seed(name)
    path = tmp_path / Path(name).name
    for kept in sorted({random.randrange(len(data) - 2) for _ in range(150)} | {1, 2, len(data) - 22, len(data) - 3}):
        if any(data[kept:]):
            path.write_bytes(data[:kept] + bytes(len(data) - kept))
            assert not examine(str(path)).ok or not any(data[kept:-2]), f"zeros from {kept} of {len(data)}"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(FILES),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6),
    deep=st.booleans(),
)
def test_edited_files_get_an_answer(
    name: str, edits: list[tuple[float, bytes]], deep: bool, cases: Path, tmp_path: Path
) -> None:
    data = bytearray((cases / name).read_bytes())
    for where, new in edits:
        at = int(where * (len(data) - 1))
        data[at : at + len(new)] = new
    path = tmp_path / Path(name).name
    path.write_bytes(data)
    finding = examine(str(path), deep=deep)
    assert finding.ok or all(fault.code and fault.found for fault in finding.faults)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), name=st.sampled_from(("x.pt", "x.pkl", "x.safetensors", ".metadata", "x.json")))
def test_bytes_of_nothing_get_an_answer(data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    finding = examine(str(tmp_path / name), deep=True)
    assert isinstance(finding.ok, bool)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    codes=st.lists(
        st.sampled_from(tuple(b"(}]).NKMJ\x85\x86\x87\x94hqjrtuesaRbQ\x81\x8c\x93c\x95\x88G2010")), max_size=300
    )
)
def test_any_row_of_opcodes_gets_an_answer(codes: list[int], tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04" + bytes(codes) + b".")
    finding = examine(str(tmp_path / "x.pkl"))
    assert all(fault.code in ("structure", "truncated", "limit") for fault in finding.faults)
