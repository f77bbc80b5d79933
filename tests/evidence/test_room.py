"""What is left where a chain saves: the disk's word, or the quota's where that is less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chainwatch.evidence import room as measured
from chainwatch.evidence.room import Left, mounted, parse_lfs, parse_quota, room

QUOTA = """\
Disk quotas for user ada (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
/dev/sda2 900 1000 1100 0 90 100 120 0
nas:/export/home 1200* 1000 2000 6days 5 0 0 0
"""


def test_quota_tells_what_the_soft_limits_leave() -> None:
    left = parse_quota(QUOTA, "/dev/sda2", "/")
    assert (left.bytes, left.files) == (100 * 1024, 10)


def test_a_quota_that_is_passed_leaves_nothing_and_a_limit_of_zero_is_none() -> None:
    left = parse_quota(QUOTA, "nas:/export/home", "/home")
    assert (left.bytes, left.files) == (0, None)


def test_a_file_system_without_a_quota_and_an_answer_that_is_none_leave_everything() -> None:
    for text in (QUOTA, "", "quota: Cannot stat() mounted device /dev/x: No such file or directory\n"):
        left = parse_quota(text, "/dev/other", "/other")
        assert (left.bytes, left.files) == (None, None)


def test_lfs_quota_tells_the_same_of_lustre() -> None:
    left = parse_lfs("     /scratch   1048576  2097152 3145728       -     500       0    1000       -\n")
    assert (left.bytes, left.files) == (1048576 * 1024, 500)
    assert parse_lfs("lfs quota: cannot resolve path").bytes is None


def test_the_quota_counts_where_it_is_less_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "_quota", lambda directory, period: Left(bytes=4096))
    found = room(str(tmp_path / "not" / "there" / "yet"), (1000, 3), 0.0)
    assert found is not None
    assert (found.free_bytes, found.bounded_by, found.save_bytes, found.save_files) == (4096, "the quota", 1000, 3)
    monkeypatch.setattr(measured, "_quota", lambda directory, period: Left())
    status = os.statvfs(tmp_path)
    found = room(str(tmp_path), None, 0.0)
    assert found is not None
    assert found.bounded_by == "the disk"
    assert found.save_bytes is None
    assert abs((found.free_bytes or 0) - status.f_bavail * status.f_frsize) < 1 << 30


def test_the_mount_of_a_directory_is_the_longest_that_holds_it(tmp_path: Path) -> None:
    inner = tmp_path / "a b"
    inner.mkdir()
    table = tmp_path / "mounts"
    spaced = str(inner).replace(" ", "\\040")
    table.write_text(f"/dev/root / ext4 rw 0 0\nfs1 {tmp_path} lustre rw 0 0\nfs2 {spaced} xfs rw 0 0\n")
    assert mounted(str(inner), str(table))[1:] == ("fs2", "xfs")
    assert mounted(str(tmp_path), str(table))[1:] == ("fs1", "lustre")
    assert mounted("/", str(table))[1] == "/dev/root"
