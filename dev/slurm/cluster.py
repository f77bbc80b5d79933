"""The private cluster: boot, use, break and end a real Slurm in a directory of its own."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from dev.slurm.accounting import create_database, fill, install_database
from dev.slurm.client import Client
from dev.slurm.daemons import describe_daemons
from dev.slurm.installation import (
    CLIENTS,
    PROGRAMS,
    ClusterError,
    full_version,
    missing_programs,
    slurm_version,
)
from dev.slurm.ports import PortReservation
from dev.slurm.processes import Daemon, job_processes
from dev.slurm.settings import Layout, Ports, Settings, node_names, prolog, slurm_conf, slurmdbd_conf
from dev.slurm.system import write_commands

WORKING = {state + busy for state in ("idle", "mixed", "allocated") for busy in ("", "+completing")}
"""States of a node that answers and takes jobs."""


class PrivateCluster(Client):
    """A running Slurm, as a context manager that ends every process of it.

    Everything that it writes lies below `root`, and stays there. Runs wholly as root or wholly as one plain user.
    """

    def __init__(self, root: Path, name: str, settings: Settings, layout: Layout, ports: Ports) -> None:
        self.system = Path(settings.system) if settings.system else None
        super().__init__(root, layout.conf, layout.commands if self.system else None)
        self.name = name
        self.settings = settings
        self.layout = layout
        self.ports = ports
        self.nodes = node_names(settings)
        without = set() if settings.accounting else {"mariadb", "slurmdbd"}
        if settings.beside:
            without = {"munged", "mariadb", "slurmdbd"}
        daemons = describe_daemons(layout, self.nodes, self.env)
        self._daemons = {daemon.name: daemon for daemon in daemons if daemon.name not in without}
        self._guard: subprocess.Popen[bytes] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    @classmethod
    def boot(
        cls,
        root: Path,
        settings: Settings | None = None,
        *,
        guard: bool = True,
        say: Callable[[str], None] = lambda sentence: None,
        **choices: object,
    ) -> PrivateCluster:
        """Boot a cluster in `root`, anew or from what an earlier one left there; back when every node is idle.

        `choices` are the fields of `Settings` (`nodes=2, preempt="requeue"`). With `guard` a watcher ends the cluster
        when the calling process dies, however it dies. Raises `ClusterError`.
        """
        if settings is None:
            settings = Settings(**choices)  # type: ignore[arg-type]
        missing = missing_programs(Path(settings.system) if settings.system else None)
        if missing:
            where = f"in {settings.system}" if settings.system else "installed: run dev/install slurm as root"
            raise ClusterError(f"{', '.join(missing)} not {where}")
        root = root.resolve()
        sockets = root / "run" if len(str(root)) < 70 else Path(tempfile.mkdtemp(prefix="chainwatch-run-"))
        neighbour = cls.attach(Path(settings.beside)) if settings.beside else None
        layout = Layout(root, sockets, neighbour.layout.munge_socket if neighbour else None)
        earlier = _recall(root)
        if earlier is not None and earlier.running():
            raise ClusterError(f"a cluster already runs in {root}: end it first (python -m dev.cluster down {root})")
        reservation = PortReservation()
        slurmctld, slurmdbd, *slurmd = reservation.take(2 + settings.nodes)
        if neighbour is not None:
            slurmdbd = neighbour.ports.slurmdbd
        name = earlier.name if earlier is not None else f"cw{secrets.token_hex(4)}"
        cluster = cls(root, name, settings, layout, Ports(slurmctld, slurmdbd, tuple(slurmd)))
        try:
            cluster._write_files()
            if guard:
                cluster._start_guard()
            cluster._start_all(say)
        except BaseException:
            cluster.down()
            raise
        finally:
            reservation.release()
        return cluster

    @classmethod
    def attach(cls, root: Path) -> PrivateCluster:
        """The cluster that another process booted in `root`. Raises `ClusterError` where there is none."""
        cluster = _recall(root.resolve())
        if cluster is None:
            raise ClusterError(f"no private cluster was ever booted in {root}")
        return cluster

    @property
    def daemons(self) -> tuple[str, ...]:
        """Names of its own daemons; what it shares with another cluster is that one's."""
        return tuple(self._daemons)

    def running(self) -> bool:
        """Some daemon of it runs."""
        return any(daemon.process is not None for daemon in self._daemons.values())

    def down(self) -> None:
        """End every daemon, every slurmstepd and every process of a job. Files stay. May be called twice."""
        for name in self._daemons:
            if name.startswith("slurmd:"):
                self._daemons[name].signal(signal.SIGTERM)
        for name in ("slurmctld", *(n for n in self._daemons if n.startswith("slurmd:"))):
            self._daemons[name].stop()
        for _ in range(50):
            left = job_processes(self.conf, self._seen_as())
            for process in left:
                process.send(signal.SIGKILL)
            if not left:
                break
            time.sleep(0.05)
        for name in ("slurmdbd", "mariadb", "munged"):
            if name in self._daemons:
                self._daemons[name].stop()
        if self.layout.sockets != self.layout.run:
            shutil.rmtree(self.layout.sockets, ignore_errors=True)
        if self._guard is not None:
            self._guard.terminate()
            self._guard.wait()
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            self._guard = None

    def __enter__(self) -> PrivateCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # -- breaking it --------------------------------------------------------------------------------------------------

    def stop_daemon(self, name: str) -> None:
        """End `munged`, `mariadb`, `slurmdbd`, `slurmctld` or `slurmd:n1` in order."""
        self._daemon(name).stop()

    def start_daemon(self, name: str) -> None:
        """Start it again; back when it answers."""
        daemon = self._daemon(name)
        daemon.start()
        self._await_daemon(daemon)

    def freeze(self, name: str) -> None:
        """SIGSTOP: it still accepts connections and answers nothing."""
        self._daemon(name).signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._daemon(name).signal(signal.SIGCONT)

    def kill_slurmd(self, node: str) -> None:
        """Let a node die silently: slurmd is gone at once, the job's processes on it live on."""
        self._daemon(f"slurmd:{node}").kill()

    def revive_node(self, node: str) -> None:
        """Bring a node back that died or was set down; back when it is idle or works."""
        self.start_daemon(f"slurmd:{node}")
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        self.until(lambda: self.node_state(node) in WORKING, 30, f"{node} is back")

    def fail_launches(self, node: str) -> None:
        """From now on the prolog fails on this node: Slurm drains it, and brings the job back held."""
        self.layout.launch_fails(node).touch()

    def mend(self) -> None:
        """Undo what a test broke: no job left, every daemon up and awake, every node idle."""
        for node in self.nodes:
            self.layout.launch_fails(node).unlink(missing_ok=True)
        for daemon in self._daemons.values():
            daemon.signal(signal.SIGCONT)
            if daemon.process is None:
                self.start_daemon(daemon.name)
        self.cancel_all()
        for node in self.nodes:
            if self.node_state(node) != "idle":
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        self.until(lambda: all(self.node_state(node) == "idle" for node in self.nodes), 60, "every node is idle")

    def log(self, name: str) -> str:
        """What a daemon logged so far (`slurmctld`, `slurmd:n1`, …)."""
        return self._daemon(name).log.read_text(errors="replace")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _daemon(self, name: str) -> Daemon:
        if name not in self._daemons:
            raise ClusterError(f"no daemon {name!r} here; there are {', '.join(self._daemons)}")
        return self._daemons[name]

    def _write_files(self) -> None:
        for directory in (*self.layout.directories(), *(self.layout.spool / node for node in self.nodes)):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o755)
        if not self.layout.munge_key.exists():
            self.layout.munge_key.touch(mode=0o600)
            self.layout.munge_key.write_bytes(secrets.token_bytes(128))
        if self.system is not None:
            shared = [self.root, self.layout.sockets, Path(tempfile.gettempdir())]
            write_commands(self.system, self.layout.commands, [*PROGRAMS, *CLIENTS], shared)
        version = slurm_version(self.env)
        self.conf.write_text(slurm_conf(self.name, self.settings, self.layout, self.ports, version))
        self.layout.prolog.write_text(prolog(self.layout))
        self.layout.prolog.chmod(0o755)
        if version >= (24, 5):
            (self.conf.parent / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        self.layout.dbd_conf.touch(mode=0o600)
        self.layout.dbd_conf.write_text(slurmdbd_conf(self.layout, self.ports))
        record = {
            "name": self.name,
            "sockets": str(self.layout.sockets),
            "munge": str(self.layout.munge_socket),
            "settings": asdict(self.settings),
            "ports": asdict(self.ports),
        }
        (self.root / "cluster.json").write_text(json.dumps(record, indent=1))

    def _start_all(self, say: Callable[[str], None]) -> None:
        say(f"booting a private Slurm in {self.root}")
        if "munged" in self._daemons:
            self._daemons["munged"].start()
        if "mariadb" in self._daemons:
            install_database(self, self.layout)
            self.start_daemon("mariadb")
        if "munged" in self._daemons:
            self._await_daemon(self._daemons["munged"])
        if "slurmdbd" in self._daemons:
            create_database(self, self.layout)
            self.start_daemon("slurmdbd")
        if self.settings.accounting:
            fill(self, self.name, self.settings)
        self.start_daemon("slurmctld")
        for node in self.nodes:
            self._daemons[f"slurmd:{node}"].start()
        for node in self.nodes:
            self._await_daemon(self._daemons[f"slurmd:{node}"])
        say(f"cluster {self.name} is up: Slurm {full_version(self.env)}, {len(self.nodes)} nodes")

    def _seen_as(self) -> list[Path]:
        """The cluster's directory, and its name as this process sees it when a program in a chroot has it open."""
        return [self.root] if self.system is None else [self.root, self.system / self.root.relative_to("/")]

    def _await_daemon(self, daemon: Daemon) -> None:
        probes: dict[str, Callable[[], bool]] = {
            "munged": lambda: _accepts(self.layout.munge_socket),
            "mariadb": lambda: _accepts(self.layout.database_socket),
            "slurmdbd": lambda: _accepts(("127.0.0.1", self.ports.slurmdbd)),
            "slurmctld": lambda: "is UP" in self.run("scontrol", "ping", check=False).stdout,
        }
        node = daemon.name.partition(":")[2]
        probe = probes.get(daemon.name, lambda: self.node_state(node) in WORKING)
        deadline = time.monotonic() + 60
        while not probe():
            if daemon.process is None or time.monotonic() > deadline:
                why = "ended at once" if daemon.process is None else "does not answer"
                raise ClusterError(f"{daemon.name} {why}; its log {daemon.log} ends:\n{daemon.tail()}")
            time.sleep(0.05)

    def _start_guard(self) -> None:
        """A watcher that holds one end of a pipe: it reads the end of file when this process is gone, and cleans up."""
        argv = [sys.executable, "-m", "dev.slurm.guard", str(self.root)]
        here = Path(__file__).resolve().parents[2]
        self._guard = subprocess.Popen(argv, stdin=subprocess.PIPE, cwd=here, start_new_session=True)


def _recall(root: Path) -> PrivateCluster | None:
    try:
        record = json.loads((root / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    ports, settings = record["ports"], Settings(**record["settings"])
    munge = Path(record["munge"]) if settings.beside else None
    return PrivateCluster(
        root,
        record["name"],
        settings,
        Layout(root, Path(record["sockets"]), munge),
        Ports(ports["slurmctld"], ports["slurmdbd"], tuple(ports["slurmd"])),
    )


def _accepts(address: Path | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(address) if isinstance(address, Path) else address)
        except OSError:
            return False
    return True
