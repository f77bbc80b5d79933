"""Files that somebody made to do harm: each gets an answer in bounded time and memory, never an exception."""

from __future__ import annotations

import errno
import os
import resource
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chainwatch.checkpoints import Status, newest_intact, verify
from chainwatch.checkpoints.files import base, examine
from chainwatch.checkpoints.files.base import Reader
from chainwatch.checkpoints.formats import base as layouts

PICKLE = b"\x80\x04"
MANY = 1_200_000

PICKLES: dict[str, Callable[[], bytes]] = {
    "endless marks": lambda: PICKLE + b"(" * MANY,
    "endless lists": lambda: PICKLE + b"]" * MANY,
    "endless memos": lambda: PICKLE + b"N" + b"\x94" * 3_100_000,
    "endless copies": lambda: PICKLE + b"}" + b"2" * MANY,
    "endless strings": lambda: PICKLE + b"\x8c\x02ab" * MANY,
    "deep tuples": lambda: PICKLE + b")" + b"\x85" * MANY + b".",
    "a call of a deep tuple": lambda: PICKLE + b")" + b"\x85" * 500_000 + b")R.",
    "a dictionary keyed by deep tuples": lambda: PICKLE + b"})" + b"\x85" * 500_000 + b"Ns.",
    "a list of itself": lambda: PICKLE + b"]\x94h\x00a.",
    "a dictionary of itself": lambda: PICKLE + b"}\x94\x8c\x01xh\x00s.",
    "a billion laughs": lambda: PICKLE + b"]\x94" + b"(h\x00h\x00h\x00e" * 100_000 + b".",
    "doubling tuples": lambda: PICKLE + b"N" + b"2\x86" * 200_000 + b".",
    "a string of 2^63 bytes": lambda: PICKLE + b"\x8d" + struct.pack("<Q", 1 << 63) + b"x.",
    "bytes of 2^64-1 bytes": lambda: PICKLE + b"\x8e" + b"\xff" * 8 + b"x.",
    "a frame of 2^63 bytes": lambda: PICKLE + b"\x95" + struct.pack("<Q", 1 << 63) + b"N.",
    "a number of 2 GB": lambda: PICKLE + b"\x8b\xff\xff\xff\x7f1.",
    "a number of a million digits": lambda: b"I" + b"9" * 1_000_000 + b"\n.",
    "keys that collide": lambda: (
        PICKLE
        + b"}("
        + b"".join(b"\x8a\x0a" + (i * ((1 << 61) - 1)).to_bytes(10, "little") + b"N" for i in range(200_000))
        + b"u."
    ),
    "a memo of 2^32-1": lambda: PICKLE + b"Nr\xff\xff\xff\xff.",
    "a memo before the first": lambda: b"Ng-1\n.",
    "a name without end": lambda: PICKLE + b"c" + b"a" * 1_000_000,
    "a call of os.system": lambda: b"cos\nsystem\n(S'touch /tmp/owned-by-a-pickle'\ntR.",
}


def child(code: str, *arguments: str) -> tuple[str, float, int]:
    """Run Python code in a process of its own: (output, seconds, peak of its memory in MB)."""
    # VmHWM, for ru_maxrss counts what the parent had before exec
    code += (
        "\nprint([int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    *output, peak = done.stdout.splitlines()
    return "\n".join(output), time.monotonic() - began, int(peak)


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_that_does_harm_gets_an_answer(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state.pkl"
    path.write_bytes(PICKLES[name]())
    code = (
        "import sys; from chainwatch.checkpoints.files import examine; print(examine(sys.argv[1], kind='pickle').kind)"
    )
    output, seconds, peak = child(code, str(path))
    assert output == "pickle"
    assert seconds < 60
    assert peak < 300
    assert not Path("/tmp/owned-by-a-pickle").exists()


def test_a_zip_bomb_is_not_blown_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainwatch.checkpoints.files import zips

    monkeypatch.setattr(zips, "MAX_INFLATED", 1 << 20)
    path = tmp_path / "step100.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.npy", bytes(200 << 20))
    began = time.monotonic()
    examine(str(path), deep=True)
    assert time.monotonic() - began < 2


def test_a_record_that_inflates_to_more_than_it_says_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.npy", bytes(64 << 20))
    data = bytearray(path.read_bytes())
    directory = data.rfind(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = struct.pack("<L", 1000)
    data[22:26] = struct.pack("<L", 1000)
    path.write_bytes(data)
    assert not examine(str(path), deep=True).ok


def test_overlapping_records_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", PICKLE + b"N.")
        archive.writestr("a/version", b"3\n")
    data = bytearray(path.read_bytes())
    second = data.rfind(b"PK\x01\x02")
    first = data.find(b"PK\x01\x02")
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    path.write_bytes(data)
    assert [fault.code for fault in examine(str(path)).faults] == ["structure"]


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 100_000_001, 99_999_999])
def test_a_safetensors_header_of_any_length_is_not_read_into_memory(length: int, tmp_path: Path) -> None:
    path = tmp_path / "step_1.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}" * 100)
    assert not examine(str(path)).ok


def test_json_without_end_gets_an_answer(tmp_path: Path) -> None:
    deep = b"[" * 500_000
    (tmp_path / "trainer_state.json").write_bytes(deep)
    (tmp_path / "step_1.safetensors").write_bytes(struct.pack("<Q", len(deep) + 5) + b'{"a":' + deep)
    assert not examine(str(tmp_path / "trainer_state.json")).ok
    assert not examine(str(tmp_path / "step_1.safetensors")).ok


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "/dev/urandom", "loop", "directory"])
def test_what_is_no_regular_file_is_never_opened(target: str, cases: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "run"
    shutil.copytree(cases / "good/hf_trainer/ddp_w2", run)
    optimizer = run / "checkpoint-12" / "optimizer.pt"
    optimizer.unlink()
    if target == "fifo":
        os.mkfifo(optimizer)
    elif target == "loop":
        optimizer.symlink_to(optimizer)
    elif target == "directory":
        optimizer.mkdir()
    else:
        optimizer.symlink_to(target)
    began = time.monotonic()
    report = verify(str(run))
    assert time.monotonic() - began < 5
    assert [each.status is Status.INTACT for each in report.checkpoints] == [True, False]
    assert report.newest_intact is not None
    assert report.newest_intact.step == 8


def test_a_fifo_or_a_device_in_place_of_a_checkpoint_gets_an_answer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ckpt_100.pt")
    (tmp_path / "ckpt_200.pt").symlink_to("/dev/zero")
    (tmp_path / "ckpt_300.pt").symlink_to(tmp_path / "ckpt_300.pt")
    assert {each.status for each in verify(str(tmp_path)).checkpoints} == {Status.DAMAGED}


def test_loops_of_directories_end(cases: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "run"
    shutil.copytree(cases / "good/deepspeed/zero0_fp32_w2", run)
    (run / "again").symlink_to(run)
    (run / "up").symlink_to("..")
    (run / "global_step30" / "again").symlink_to("..")
    found = verify(str(run)).checkpoints
    assert [each.step for each in found] == [20, 30]


def test_a_directory_of_more_entries_than_are_looked_at_is_still_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "MAX_ENTRIES", 500)
    for number in range(1000):
        (tmp_path / f"note-{number}.txt").touch()
    began = time.monotonic()
    assert newest_intact(str(tmp_path)) is None
    assert time.monotonic() - began < 5


def test_names_that_are_no_text_are_shown_escaped(cases: Path, tmp_path: Path) -> None:
    import shutil

    name = os.fsdecode(b"ckpt\n\x1b[31m\xff_100.pt")
    shutil.copy(cases / "good/torch_zip_align/ckpt_100.pt", tmp_path / name)
    with open(tmp_path / os.fsdecode(b"ckpt\n\xff_200.pt"), "wb") as file:
        file.write(b"PK\x03\x04")
    os.utime(tmp_path / os.fsdecode(b"ckpt\n\xff_200.pt"), (1e9, 1e9))
    good, bad = verify(str(tmp_path)).checkpoints
    assert (good.step, good.path) == (100, str(tmp_path / name))
    assert bad.status is Status.DAMAGED
    assert bad.problems[0].file.isprintable()
    assert bad.reason.isprintable()


def test_a_file_that_grows_while_it_is_read_is_said_to_change(cases: Path, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_100.pt"
    path.write_bytes((cases / "good/torch_zip_align/ckpt_100.pt").read_bytes())
    grown = []

    def grow(count: int) -> None:
        if not grown:
            with path.open("ab") as file:
                file.write(b"more")
            grown.append(count)

    finding = examine(str(path), deep=True, progress=grow)
    assert [fault.code for fault in finding.faults] == ["changed"]


def test_a_file_that_shrinks_while_it_is_read_gets_an_answer(cases: Path, tmp_path: Path) -> None:
    path = tmp_path / "ckpt_100.pt"
    path.write_bytes((cases / "good/torch_zip_align/ckpt_100.pt").read_bytes())
    finding = examine(str(path), deep=True, progress=lambda count: os.truncate(path, 10))
    assert {fault.code for fault in finding.faults} <= {"changed", "truncated"}
    assert not finding.ok


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT])
def test_an_error_of_the_file_system_is_a_fault(code: int, cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(base.os, "pread", fails)
    finding = examine(str(cases / "good/torch_zip_align/ckpt_100.pt"))
    assert [(fault.code, fault.found) for fault in finding.faults] == [("unreadable", os.strerror(code))]


def test_a_quick_check_reads_a_bounded_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "QUICK_BYTES", 1000)
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(5000))
    with Reader(str(path)) as reader:
        reader.read(0, 900)
        with pytest.raises(base.Broken) as broken:
            reader.read(0, 900)
    assert broken.value.fault.code == "limit"


def test_memory_does_not_follow_the_size_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "step_1.safetensors"
    header = b'{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (1 << 38, 1 << 40)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (1 << 40))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    finding = examine(str(path))
    assert finding.ok
    assert finding.warnings, "a tebibyte of zeros is worth a word"
    assert time.monotonic() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
