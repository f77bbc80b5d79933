"""What the private cluster is like: its size, its timers, its paths, and the configuration files that say so."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path

from dev.slurm.installation import user_name

QOS = {"normal": None, "extra": "cancel", "extra-requeue": "requeue"}
"""Every QOS of the cluster with its PreemptMode; `normal` preempts the others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a caller chooses. Times are seconds, short so that a test against a real Slurm takes seconds."""

    nodes: int = 4
    node_prefix: str = "n"
    """Nodes are n1, n2, … Cgroups are named by the node, on the whole machine: where they are used, choose another."""
    cpus: int = 4
    preempt: str = "cancel"
    """The cluster's PreemptMode, `cancel` or `requeue`; the QOS `extra` and `extra-requeue` have their own."""
    grace: int = 8
    """GraceTime of both preemptable QOS."""
    kill_wait: int = 3
    min_job_age: int = 15
    message_timeout: int = 10
    slurmd_timeout: int = 12
    requeue_delay: int = 5
    """A requeued job is not started before its credential is stale; 120 s where nobody sets cred_expire."""
    beside: str = ""
    """Directory of another running private cluster: its munge and its slurmdbd are this one's too, so that each is
    reached from the other by --clusters (-M)."""
    accounting: bool = True
    """False: no database and no slurmdbd, and so no QOS and no preemption."""
    store_comment: bool = False
    """AccountingStoreFlags=job_comment: sacct's Comment is filled."""
    system: str = ""
    """Top of another system's tree (`dev.slurm.suites`) whose Slurm is run; empty: this machine's own."""
    extra_conf: str = ""
    """More lines for slurm.conf; a line wins over the same key above."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the daemons are spoken to, all on 127.0.0.1.

    They listen on every address (who has not the private munge key gets nothing): NoInAddrAny would bind them to what
    the machine's name resolves to, which may be 127.0.1.1, another network, or nothing at all.
    """

    slurmctld: int
    slurmdbd: int
    slurmd: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster below its directory."""

    root: Path
    sockets: Path
    """Directory of the Unix sockets: `root/run`, or a short one where that would pass a socket path's 107 bytes."""
    other_munge: Path | None = None
    """The socket of another cluster's munge, in place of one of its own."""

    @property
    def conf(self) -> Path:
        return self.root / "etc" / "slurm.conf"

    @property
    def dbd_conf(self) -> Path:
        return self.root / "etc" / "slurmdbd.conf"

    @property
    def munge_key(self) -> Path:
        return self.root / "etc" / "munge.key"

    @property
    def database(self) -> Path:
        return self.root / "mariadb"

    @property
    def commands(self) -> Path:
        """Where the programs of another system are (`dev.slurm.system`)."""
        return self.root / "commands"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def prolog(self) -> Path:
        """Runs on a node before each job; fails there while `launch_fails` names a file."""
        return self.root / "etc" / "prolog"

    def launch_fails(self, node: str) -> Path:
        """While this file exists, launches on the node fail."""
        return self.run / f"launch-fails-{node}"

    @property
    def munge_socket(self) -> Path:
        return self.other_munge or self.sockets / "munge.sock"

    @property
    def database_socket(self) -> Path:
        return self.sockets / "mysql.sock"

    def directories(self) -> tuple[Path, ...]:
        """Every directory that has to be there before the daemons start."""
        return (
            self.root,
            self.conf.parent,
            self.run,
            self.sockets,
            self.logs,
            self.state,
            self.spool,
        )


def node_names(settings: Settings) -> tuple[str, ...]:
    """n1, n2, …"""
    return tuple(f"{settings.node_prefix}{number}" for number in range(1, settings.nodes + 1))


def slurm_conf(name: str, settings: Settings, layout: Layout, ports: Ports, version: tuple[int, int]) -> str:
    """slurm.conf of the private cluster."""
    host = socket.gethostname().split(".")[0]
    user = user_name()
    values = {
        "ClusterName": name,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(ports.slurmctld),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket},cred_expire={settings.requeue_delay}",
        "CredType": "cred/munge",
        "StateSaveLocation": str(layout.state),
        "SlurmdSpoolDir": f"{layout.spool}/%n",
        "SlurmctldPidFile": f"{layout.run}/slurmctld.pid",
        "SlurmdPidFile": f"{layout.run}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{layout.logs}/slurmctld.log",
        "SlurmdLogFile": f"{layout.logs}/slurmd-%n.log",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "Prolog": str(layout.prolog),
        "PrologFlags": "Contain",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "SwitchType": "switch/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "5",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "PriorityType": "priority/multifactor",
        "PriorityWeightQOS": "10000",
        "PreemptType": "preempt/qos",
        "PreemptMode": settings.preempt.upper(),
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=100000",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(ports.slurmdbd),
        # slurmdbd's connection takes munge's socket from here, not from AuthInfo.
        "AccountingStoragePass": str(layout.munge_socket),
        "AccountingStorageEnforce": "associations,limits,qos",
        "MinJobAge": str(settings.min_job_age),
        "KillWait": str(settings.kill_wait),
        "MessageTimeout": str(settings.message_timeout),
        "SlurmdTimeout": str(settings.slurmd_timeout),
        "SlurmctldTimeout": "30",
        "InactiveLimit": "0",
        "ReturnToService": "2",
        "SlurmdParameters": "config_overrides",
        "RebootProgram": "/bin/true",
    }
    if not settings.accounting:
        values = {key: value for key, value in values.items() if not key.startswith("AccountingStorage")}
        values |= {"PriorityType": "priority/basic", "PreemptType": "preempt/none", "PreemptMode": "OFF"}
        values.pop("PriorityWeightQOS")
    if settings.store_comment:
        values["AccountingStoreFlags"] = "job_comment"
    if version >= (25, 5):
        # Dropped or renamed in newer releases, where the default is what is wanted.
        for key in ("CredType", "SwitchType"):
            values.pop(key)
    lines = [line for line in settings.extra_conf.splitlines() if line.strip()]
    overridden = {match[1].lower() for line in lines if (match := re.match(r"\s*(\w+)\s*=", line))}
    text = [f"{key}={value}" for key, value in values.items() if key.lower() not in overridden]
    text += lines
    text += [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={settings.cpus} Sockets=1 "
        f"CoresPerSocket={settings.cpus} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN"
        for node, port in zip(node_names(settings), ports.slurmd, strict=True)
    ]
    text += ["PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
    return "\n".join(text) + "\n"


def prolog(layout: Layout) -> str:
    """The prolog of every node. A file decides whether it fails, so that a test can break one launch."""
    return f'#!/bin/sh\n[ ! -e "{layout.run}/launch-fails-$SLURMD_NODENAME" ]\n'


def slurmdbd_conf(layout: Layout, ports: Ports) -> str:
    """slurmdbd.conf; slurmdbd wants it with mode 0600."""
    return "\n".join(
        (
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={ports.slurmdbd}",
            f"SlurmUser={user_name()}",
            f"LogFile={layout.logs}/slurmdbd.log",
            f"PidFile={layout.run}/slurmdbd.pid",
            "DebugLevel=info",
            "StorageType=accounting_storage/mysql",
            # With "localhost" the client library takes the Unix socket that MYSQL_UNIX_PORT names.
            "StorageHost=localhost",
            "StorageUser=root",
            "StorageLoc=slurm_acct",
            "",
        )
    )
