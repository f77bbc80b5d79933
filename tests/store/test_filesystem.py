from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.store.engine import choose_journal
from chainwatch.store.filesystem import filesystem_type, is_local
from chainwatch.store.store import open_store

MOUNTS = r"""
21 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 28 0:60 / /home rw,relatime shared:9 - nfs4 filer:/home rw,vers=4.2,addr=10.0.0.1
31 28 0:61 / /home2 rw shared:9 - nfs filer:/h rw
32 30 259:4 / /home/ann/local\040disk rw - xfs /dev/sdb1 rw
33 28 0:62 / /lustre rw - lustre mds@tcp:/scratch rw,flock
34 28 0:63 / /gpfs rw - gpfs gpfs0 rw
35 28 0:64 / /beegfs rw - beegfs beegfs_nodev rw
36 28 0:65 / /cifs rw - cifs //server/share rw
37 28 0:66 / /sshfs rw - fuse.sshfs ann@host:/ rw
38 28 0:67 / /ceph rw - ceph mon:/ rw
39 28 0:68 / /fancy rw - brandnewfs x rw
40 28 0:69 / /tmp rw master:1 propagate_from:2 - tmpfs tmpfs rw
41 28 259:5 / /both rw - ext4 /dev/sdc1 rw
42 41 0:70 / /both rw - nfs4 filer:/both rw
43 28 0:71 / /auto rw - autofs systemd-1 rw,fd=45
44 43 0:72 / /auto rw - xfs /dev/sdd rw
truncated line
"""


@pytest.mark.parametrize(
    ("path", "kind", "local"),
    [
        ("/", "ext4", True),
        ("/var/lib/x", "ext4", True),
        ("/home/ann/.local/state/chainwatch", "nfs4", False),
        ("/home", "nfs4", False),
        ("/home2/x", "nfs", False),
        ("/homework", "ext4", True),
        ("/home/ann/local disk/x", "xfs", True),
        ("/lustre/x", "lustre", False),
        ("/gpfs/x", "gpfs", False),
        ("/beegfs/x", "beegfs", False),
        ("/cifs/x", "cifs", False),
        ("/sshfs/x", "fuse.sshfs", False),
        ("/ceph/x", "ceph", False),
        ("/fancy/x", "brandnewfs", False),
        ("/tmp/x", "tmpfs", True),
        ("/both/x", "nfs4", False),
        ("/auto/x", "xfs", True),
    ],
)
def test_the_deepest_and_latest_mount_decides(tmp_path: Path, path: str, kind: str, local: bool) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTS)
    assert filesystem_type(Path(path), mountinfo) == kind
    assert is_local(Path(path), mountinfo) is local


def test_where_the_kernel_does_not_say_the_file_system_counts_as_shared(tmp_path: Path) -> None:
    assert filesystem_type(tmp_path, tmp_path / "missing") == ""
    assert not is_local(tmp_path, tmp_path / "missing")


def test_a_link_is_followed_to_where_the_files_are(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mountinfo.write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path}/real rw - nfs4 y rw\n")
    assert filesystem_type(tmp_path / "link" / "state", mountinfo) == "nfs4"


def test_a_shared_file_system_has_no_write_ahead_log_also_after_a_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in ("delete", "wal", "delete"):
        monkeypatch.setattr("chainwatch.store.engine.is_local", lambda _, answer=(mode == "wal"): answer)
        store = open_store(tmp_path / "state")
        assert store.file is not None
        assert choose_journal(store.engine, store.file) == mode
        store.remember("mode", mode)
        assert (tmp_path / "state" / "chainwatch.db-wal").exists() is (mode == "wal")
        store.close()
