"""What runs out: tickets, tokens, and one's share of a file system."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from chainwatch.config.models import Config
from chainwatch.doctor import Finding, Level, Patient
from chainwatch.doctor import quota as quota_module
from chainwatch.doctor.quota import parse, quotas
from chainwatch.doctor.tickets import expiry, mount_of, tickets
from chainwatch.slurm.process import Reply

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MIT = """Ticket cache: FILE:/tmp/krb5cc_1000
Default principal: alice@EXAMPLE.ORG

Valid starting       Expires              Service principal
03/02/2026 07:00:00  {ends}  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG
	renew until 03/09/2026 07:00:00
"""
HEIMDAL = """Credentials cache: FILE:/tmp/krb5cc_1000
        Principal: alice@EXAMPLE.ORG

  Issued                Expires               Principal
Mar  2 07:00:00 2026  Mar  2 17:00:00 2026  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG
"""
MOUNTS = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 22 0:40 / /home rw,nosuid - nfs4 server:/home rw,vers=4.2,sec=krb5p,addr=10.0.0.1\n"
    "31 22 0:41 / /home/with\\040space rw - nfs4 server:/plain rw,sec=sys\n"
    "32 22 0:42 / /afs rw - afs AFS rw\n"
)


def patient(root: Path, home: str, answers: dict[str, str | None]) -> Patient:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(MOUNTS)
    config = Config.model_validate(
        {"state": "/var/lib/alice", "chains": {"a": {"batch": "/b.sh", "checkpoints": "/afs/x"}}}
    )

    def run(program: str, *arguments: str) -> str | None:
        return answers.get(program)

    def ask(*words: str) -> Reply:
        raise AssertionError("Slurm is not asked for it")

    return Patient(ask, NOW, "alice", Path(home), config, root=root, run=run)


def found(one: Patient) -> dict[str, Finding]:
    return {finding.code: finding for finding in tickets(one)}


def test_the_ends_of_tickets_are_read_from_both_kerberos() -> None:
    ends, renewable = expiry(MIT.format(ends="03/02/2026 17:30:00"))
    assert (ends, renewable) == (datetime(2026, 3, 2, 17, 30, tzinfo=UTC), datetime(2026, 3, 9, 7, tzinfo=UTC))
    assert expiry(HEIMDAL) == (datetime(2026, 3, 2, 17, tzinfo=UTC), None)
    assert expiry("klist: No credentials cache found") == (None, None)


def test_the_file_system_of_a_path_is_that_of_the_longest_mount_point_above_it() -> None:
    assert mount_of(Path("/home/alice/x"), MOUNTS)[0] == "nfs4"
    assert "sec=krb5p" in mount_of(Path("/home"), MOUNTS)[1]
    assert "sec=sys" in mount_of(Path("/home/with space/x"), MOUNTS)[1]
    assert mount_of(Path("/homes"), MOUNTS)[0] == "ext4"
    assert mount_of(Path("/x"), "") == ("", "")


@pytest.mark.parametrize(
    ("klist", "level", "said"),
    [
        (MIT.format(ends="03/02/2026 17:30:00"), Level.PROBLEM, "expires in 9h30m and can be renewed until 2026-03-09"),
        (MIT.format(ends="03/05/2026 08:00:00"), Level.ADVICE, "expires in 3d"),
        (MIT.format(ends="03/02/2026 07:59:00"), Level.PROBLEM, "no valid one"),
        (None, Level.PROBLEM, "klist is not there"),
    ],
)
def test_a_home_that_needs_a_ticket_is_told_with_its_end(
    tmp_path: Path, klist: str | None, level: Level, said: str
) -> None:
    finding = found(patient(tmp_path, "/home/alice", {"klist": klist}))["kerberos"]
    assert finding.level is level
    assert said in finding.what
    assert finding.what.startswith("home directory is on NFS with Kerberos")
    assert "k5start" in finding.mend


def test_checkpoints_on_afs_need_a_token(tmp_path: Path) -> None:
    text = "Tokens held by the Cache Manager:\n\n"
    text += "User's (AFS ID 7) tokens for afs@x.org [Expires Mar  3 09:00]\n   --End of list--"
    one = patient(tmp_path, "/root", {"tokens": text})
    assert "which expires Mar  3 09:00" in found(one)["afs"].what
    assert "kerberos" not in found(one)
    one.run = lambda *_: "Tokens held by the Cache Manager:\n\n   --End of list--"
    assert found(one)["afs"].level is Level.PROBLEM


QUOTA = """Disk quotas for user alice (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
 server:/home 9700000* 9500000 10000000 1772438400   91000       0  100000       0
      /dev/sdb1    1000       0       0       0      10       0       0       0
"""
LUSTRE = """     /lustre/scratch
                86000000       0 100000000       -  500000       0 1000000       -
"""


def test_rows_of_quota_and_of_lustre_are_read() -> None:
    space, files = parse(QUOTA)
    assert (space.where, space.used, space.limit) == ("server:/home", 9700000 * 1024, 9500000 * 1024)
    assert (files.what, files.used, files.limit) == ("files", 91000, 100000)
    space, files = parse(LUSTRE)
    assert (space.where, space.used / space.limit) == ("/lustre/scratch", 0.86)
    assert files.used / files.limit == 0.5
    for nothing in ("", "Disk quotas for user alice (uid 1000): none\n", "quota: cannot\n\n  x y z\n"):
        assert parse(nothing) == []


def test_a_quota_is_a_problem_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_module, "filesystem_type", lambda *_: "lustre")
    one = patient(tmp_path, "/home/alice", {"quota": QUOTA, "lfs": LUSTRE})
    levels = {finding.what: finding.level for finding in quotas(one)}
    assert levels == {
        "102% of your quota of 9.7 GB on server:/home is used": Level.PROBLEM,
        "91% of your quota of 100,000 files on server:/home is used": Level.ADVICE,
        "86% of your quota of 102.4 GB on /lustre/scratch is used": Level.ADVICE,
        "50% of your quota of 1,000,000 files on /lustre/scratch is used": Level.OK,
    }
