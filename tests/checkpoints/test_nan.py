"""NaN and infinity are counted tensor by tensor, from raw bytes and the types that the files declare."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.checkpoints.files.values import DTYPES, Floats, count, count_plain, floats_of
from chainwatch.checkpoints.nan import TensorCount, count_nans


def counted(path: Path) -> dict[str, TensorCount]:
    return {each.name: each for each in count_nans(str(path))}


@pytest.mark.parametrize(
    ("dtype", "nan", "infinity", "number"),
    [
        ("F32", 0x7FC00000, 0xFF800000, 0x3F800000),
        ("F64", 0x7FF8000000000001, 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF),
        ("F16", 0xFE00, 0x7C00, 0x7BFF),
        ("BF16", 0x7FC0, 0xFF80, 0x7F7F),
        ("F8_E5M2", 0x7D, 0xFC, 0x7B),
        ("F8_E4M3", 0x7F, None, 0x7E),
    ],
)
@pytest.mark.parametrize("little", [True, False], ids=["little", "big"])
def test_special_values_of_each_type_are_told_apart(
    dtype: str, nan: int, infinity: int | None, number: int, little: bool
) -> None:
    kind = DTYPES[dtype]
    patterns = [number, nan, nan, *([] if infinity is None else [infinity]), 0]
    data = b"".join(each.to_bytes(kind.width, "little" if little else "big") for each in patterns)
    found = count([data], kind, little)
    assert (found.nan, found.infinite, found.values) == (2, 0 if infinity is None else 1, len(patterns))
    assert count_plain(memoryview(data), kind, little) == (found.nan, found.infinite)


@given(st.binary(max_size=400), st.sampled_from(sorted(DTYPES)), st.booleans())
def test_numpy_and_plain_python_count_alike(data: bytes, dtype: str, little: bool) -> None:
    kind = DTYPES[dtype]
    whole = memoryview(data)[: len(data) - len(data) % kind.width]
    if not whole:
        return
    found = count([whole], kind, little)
    assert count_plain(whole, kind, little) == (found.nan, found.infinite)


@given(st.lists(st.binary(max_size=9)))
def test_values_that_are_split_between_blocks_are_counted_once(blocks: list[bytes]) -> None:
    kind = DTYPES["F32"]
    assert count(blocks, kind) == count([b"".join(blocks)], kind)


def test_plain_python_agrees_with_the_meaning_of_floats() -> None:
    values = [0.0, -1.5, float("nan"), float("inf"), -float("inf"), 3e38]
    data = struct.pack(f"<{len(values)}f", *values)
    assert count_plain(memoryview(data), Floats(4, 0x7F800000), True) == (1, 2)


def test_names_of_types_from_every_format_are_known() -> None:
    for name in ("<f4", "float32", "bfloat16", "torch.FloatStorage", "BF16", "float8_e4m3fn", "f2", "complex64"):
        assert floats_of(name) is not None
    for name in ("int32", "<i8", "LongStorage", "", "bool"):
        assert floats_of(name) is None


def test_arrays_of_numpy_files_are_counted_also_when_compressed(tmp_path: Path) -> None:
    bad = np.array([[1.0, np.nan], [np.inf, 2.0]], dtype=np.float32)
    np.savez(tmp_path / "a.npz", bad=bad, whole=np.arange(5))
    np.savez_compressed(tmp_path / "b.npz", bad=np.tile(bad, (500, 500)), big=bad.astype(">f8"))
    np.save(tmp_path / "c.npy", bad.astype(np.float16))
    plain = counted(tmp_path / "a.npz")
    assert set(plain) == {"bad"}
    assert (plain["bad"].nan, plain["bad"].infinite, plain["bad"].values) == (1, 1, 4)
    packed = counted(tmp_path / "b.npz")
    assert packed["bad"].nan == 250_000
    assert packed["big"].nan == 1
    assert counted(tmp_path / "c.npy")["c.npy"].nan == 1


def test_tensors_of_safetensors_and_hdf5_are_counted(tmp_path: Path) -> None:
    import h5py
    from safetensors.numpy import save_file

    bad = np.array([np.nan, 1.0, np.inf], dtype=np.float32)
    save_file({"w": bad, "n": np.arange(3)}, str(tmp_path / "m.safetensors"))
    assert counted(tmp_path / "m.safetensors")["w"][3:6] == (3, 1, 1)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["layer/w"] = bad
        file["layer/half"] = bad.astype(np.float16)
    found = counted(tmp_path / "m.h5")
    assert found["layer/w"].nan == 1
    assert found["layer/half"].infinite == 1


@pytest.mark.parametrize(
    ("path", "tensors"),
    [
        ("good/orbax/manager_composite/ckpt_30", 18),
        ("good/orbax/zarr_noocdbt/step_2", 2),
        ("good/flax_msgpack/legacy/checkpoint_3", 18),
        ("good/keras/run/model.03.keras", 13),
        ("good/tf/mgr/ckpt-400", 5),
        ("good/torch_zip_nocrc/ckpt_200.pt", 16),
        ("good/torch_legacy/ckpt_000300.pt", 16),
        ("good/lightning/single/last.ckpt", 16),
        ("good/deepspeed/zero1_resize_w4to2/global_step30", 9),
        ("good/dcp/w2/step_30", 21),
        ("good/hf_trainer/sharded/checkpoint-12", 48),
    ],
)
def test_real_checkpoints_of_every_array_format_are_counted(cases: Path, path: str, tensors: int) -> None:
    found = list(count_nans(str(cases / path)))
    assert not [each for each in found if each.note]
    assert len(found) == tensors
    assert sum(each.values for each in found) > 100
    assert sum(each.nan + each.infinite for each in found) == 0


def test_a_damaged_file_is_listed_with_a_note_and_no_traceback(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.ones(100))
    path = tmp_path / "a.npz"
    path.write_bytes(path.read_bytes()[:200])
    (found,) = count_nans(str(path))
    assert found.note
