"""The resume file and the kept scripts: replaced as a whole, and only when something changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chainwatch.actions import kept, resume_file


def test_the_file_names_the_checkpoint_and_an_empty_one_means_from_the_beginning(tmp_path: Path) -> None:
    path = resume_file.path_of(tmp_path, "llama")
    assert resume_file.write(path, "/run/step_20")
    assert path.read_text() == "/run/step_20\n"
    assert not resume_file.write(path, "/run/step_20")
    assert resume_file.write(path, None)
    assert path.read_text() == ""
    assert os.listdir(path.parent) == ["llama"]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_reader_that_opened_the_old_file_reads_it_to_the_end(tmp_path: Path) -> None:
    path = resume_file.path_of(tmp_path, "llama")
    resume_file.write(path, "/run/step_20")
    with path.open() as reader:
        resume_file.write(path, "/run/step_30")
        assert reader.read() == "/run/step_20\n"


def test_a_path_that_is_no_utf_8_is_written_byte_for_byte(tmp_path: Path) -> None:
    path = resume_file.path_of(tmp_path, "llama")
    resume_file.write(path, os.fsdecode(b"/run/\xff"))
    assert path.read_bytes() == b"/run/\xff\n"
    assert not resume_file.write(path, os.fsdecode(b"/run/\xff"))


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = resume_file.path_of(tmp_path, "llama")
    resume_file.write(path, "/run/step_20")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        resume_file.write(path, "/run/step_30")
    assert path.read_text() == "/run/step_20\n"
    assert os.listdir(path.parent) == ["llama"]


def test_a_kept_script_is_never_overwritten_by_another(tmp_path: Path) -> None:
    first, second = kept.keep(tmp_path, "llama", b"#!/bin/sh\na\n"), kept.keep(tmp_path, "llama", b"#!/bin/sh\nb\n")
    assert first != second
    assert first.read_bytes() == b"#!/bin/sh\na\n"
    assert kept.keep(tmp_path, "llama", b"#!/bin/sh\na\n") == first
