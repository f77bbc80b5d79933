"""The daemon as a service manager, a scraper and an operator see it: a real process, a real notify socket, a Slurm whose
clients are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chainwatch.store import open_store
from tests.alerts.conftest import Server, server, wait_until
from tests.slurm.fake import DATA
from tests.web.test_site import Unix

__all__ = ["server"]

_CLIENT = """#!{python}
import re, sys, pathlib
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if (pathlib.Path(sys.argv[0]).parent / "down").exists():
    sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
if name == "scontrol":
    print("Configuration data as of 1795973000\\nClusterName             = lab\\nSLURM_VERSION           = 24.11.5")
    print("MinJobAge               = 300 sec\\nMessageTimeout          = 10 sec")
    print("AccountingStorageType   = accounting_storage/slurmdbd")
elif name == "squeue":
    fmt = next(w for w in words if w.startswith("--Format="))
    field = re.search(r"JobID:([^,]+)", fmt)[1]
    print(field.join({heads!r}) + fmt.rpartition(":")[2])
elif "--helpformat" in words:
    print(open({fields!r}).read())
elif name == "sacct":
    mark = next(w.partition("=")[2] for w in words if w.startswith("--delimiter="))
    names = next(w.partition("=")[2] for w in words if w.startswith("--format=")).split(",")
    print(mark.join([*names, ""]))
"""


class Service:
    """`chainwatch run`, started as systemd would."""

    def __init__(self, where: Path, config: dict[str, object], watchdog: float = 1.0) -> None:
        from chainwatch.slurm.squeue import _FIELDS

        self.where, self.bin = where, where / "bin"
        self.bin.mkdir()
        heads, fields = [head for _, head in _FIELDS], str(DATA / "helpformat-26.05.txt")
        for name in ("squeue", "sacct", "scontrol", "sbatch", "scancel", "sinfo"):
            (self.bin / name).write_text(_CLIENT.format(python=sys.executable, heads=heads, fields=fields))
            (self.bin / name).chmod(0o755)
        self.config = where / "chainwatch.yaml"
        self.settings = {"state": str(where / "state"), "poll": "1s", "slurm": {"bin": str(self.bin)}, **config}
        self.write()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(where / "notify"))
        self.manager.settimeout(0.1)
        self.log = where / "log"
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": str(where / "notify"),
            "WATCHDOG_USEC": str(int(watchdog * 1e6)),
        }
        environment.pop("WATCHDOG_PID", None)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "chainwatch.cli", "run", str(self.config)],
                env=environment,
                stderr=out,
                stdout=out,
            )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """As systemd does: at once. The kernel holds no more than ten datagrams for a socket."""
        while self.manager.fileno() >= 0:
            try:
                self.said.append(self.manager.recv(4096).decode())
            except TimeoutError:
                continue
            except OSError:
                return

    def write(self, text: str | None = None) -> None:
        self.config.write_text(json.dumps(self.settings) if text is None else text)

    def reload(self) -> subprocess.CompletedProcess[str]:
        """Write the settings, and have them read."""
        self.write()
        command = [sys.executable, "-m", "chainwatch.cli", "reload", "--state", str(self.where / "state")]
        for _ in range(4):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            if "which waits for Slurm now" not in done.stdout:  # a pass takes long where the machine is busy
                break
        return done

    def heard(self) -> list[str]:
        """What was said since `said` was last cleared."""
        return list(self.said)

    def until(self, what: str, seconds: float = 20) -> None:
        wait_until(lambda: any(what in one for one in self.heard()), seconds)

    def get(self, path: str) -> tuple[int, str]:
        connection = Unix(self.where / "state" / "web.sock")
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def lines(self) -> str:
        return self.log.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.manager.close()
        self._listener.join(2)


@pytest.fixture
def service(tmp_path: Path, server: Server) -> Iterator[Service]:
    for name, text in (("url", server.url), ("token", "a-token-of-sixteen-characters")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    service = Service(
        tmp_path,
        {
            "alerts": {"heartbeat": {"url_file": str(tmp_path / "url"), "every": "1s"}},
            "web": {"textfile": str(tmp_path / "metrics.prom")},
        },
    )
    try:
        service.until("READY=1")
        yield service
    finally:
        service.close()


@pytest.mark.slow
def test_a_service_is_ready_reports_reloads_and_stops(service: Service, server: Server) -> None:
    service.until("0 chains, last poll")
    service.until("WATCHDOG=1")
    wait_until(lambda: service.get("/readyz")[0] == 200)
    assert service.get("/healthz")[0] == 200
    assert 'chainwatch_polls_total{cluster="lab",source="squeue"}' in service.get("/metrics")[1]
    wait_until(lambda: (service.where / "metrics.prom").exists() and len(server.requests) >= 2)

    service.settings["poll"] = "never"
    service.write()
    service.said.clear()
    service.process.send_signal(signal.SIGHUP)
    service.until("RELOADING=1")
    service.until("READY=1")
    assert "the new configuration is refused, the old one stays" in service.lines()
    assert service.process.poll() is None

    def chains() -> dict[str, str]:
        listed = json.loads(service.get("/api/v1/chains")[1])
        return {chain["name"]: "released" if chain["released"] else chain["mode"] for chain in listed}

    refused = service.reload()
    assert (refused.returncode, "the old one stays" in refused.stderr) == (2, True)
    service.settings |= {"poll": "10m", "chains": {name: {"batch": "train.sh"} for name in "ab"}}
    assert "the configuration was read again: 2 chains" in service.reload().stdout
    wait_until(lambda: "2 chains; new a, b" in service.lines())
    wait_until(lambda: chains() == {"a": "act", "b": "act"}, 15)
    wait_until(lambda: "chainwatch_poll_interval_seconds 600.0" in service.get("/metrics")[1], 15)
    service.settings["chains"] = {"b": {"batch": "train.sh", "mode": "observe"}, "c": {"batch": "train.sh"}}
    assert "the configuration was read again: 2 chains" in service.reload().stdout
    wait_until(lambda: "2 chains; new c; changed b; gone a" in service.lines())
    wait_until(lambda: chains() == {"a": "released", "b": "observe", "c": "act"}, 15)  # not ten minutes
    service.settings["state"] = str(service.where / "elsewhere")
    refused = service.reload()
    assert (refused.returncode, "state cannot change" in refused.stderr) == (2, True)
    assert service.process.poll() is None
    wait_until(lambda: service.get("/readyz")[0] == 200)

    begun = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(10) == 0
    assert time.monotonic() - begun < 4  # under a second where the machine is idle
    service.until("STOPPING=1", 2)
    assert not (service.where / "state" / "web.sock").exists()
    assert "Traceback" not in service.lines()


@pytest.mark.slow
def test_a_daemon_that_waits_for_slurms_very_first_answer_grants_reloads_also_of_the_way_to_slurm(
    tmp_path: Path,
) -> None:
    """The kind: a wish that nobody looks up while something else is waited for."""
    service = Service(tmp_path, {"slurm": {"bin": str(tmp_path / "nowhere")}})
    try:
        service.until("waiting for Slurm")
        service.settings["chains"] = {"a": {"batch": "train.sh"}}
        assert "the configuration was read again: 1 chain" in service.reload().stdout
        service.settings["state"] = str(tmp_path / "elsewhere")
        refused = service.reload()
        assert (refused.returncode, "state cannot change" in refused.stderr) == (2, True)
        assert "watching" not in service.lines()
        service.settings |= {"state": str(tmp_path / "state"), "slurm": {"bin": str(service.bin)}}
        assert "the configuration was read again: 1 chain" in service.reload().stdout
        service.until("1 chain, last poll", 20)  # not at the next of its questions, thirty seconds later
        service.process.terminate()
        assert service.process.wait(20) == 0
        assert "Traceback" not in service.lines()
    finally:
        service.close()


@pytest.mark.slow
def test_a_storm_of_hangups_from_its_first_moment_on_neither_kills_nor_blocks_the_daemon(tmp_path: Path) -> None:
    """The kind: a signal that comes while another one is handled, or while the loop goes to sleep."""
    service = Service(tmp_path, {})

    def storm(count: int, pause: float) -> None:
        for _ in range(count):
            service.process.send_signal(signal.SIGHUP)
            time.sleep(pause)

    def handled() -> bool:
        """The interpreter has come as far as our first line."""
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGHUP - 1) & 1)

    try:
        wait_until(handled, 20)
        while not any("READY=1" in one for one in service.heard()):
            assert service.process.poll() is None, service.lines()
            storm(5, 0.01)
        storm(800, 0.0)
        storm(300, 0.001)
        service.settings["chains"] = {"a": {"batch": "train.sh"}}
        service.write()
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "1 chain; new a" in service.lines(), 30)
        assert service.lines().count("the configuration was read again") < 50, "many wishes are one"
        service.said.clear()
        service.until("WATCHDOG=1")
        service.process.terminate()
        assert service.process.wait(20) == 0
        assert "Traceback" not in service.lines()
    finally:
        service.close()


@pytest.mark.slow
def test_a_database_that_is_damaged_meanwhile_ends_the_daemon_at_the_first_look_with_one_line(tmp_path: Path) -> None:
    """The kind: a thread beside the loop meets what the loop must stop for, while the loop sleeps."""
    service = Service(tmp_path, {"poll": "10m"})
    try:
        service.until("0 chains, last poll")
        state = tmp_path / "state"
        for file in state.glob("*.db*"):
            if not file.name.endswith("-shm"):
                with file.open("r+b") as out:
                    out.write(b"\xff" * file.stat().st_size)
        begun = time.monotonic()
        assert service.process.wait(60) == 2
        assert time.monotonic() - begun < 50, "the loop would have slept for longer"
        assert "damaged" in service.lines()
        assert service.lines().count("damaged: restore") == 1, service.lines()
        assert "Traceback" not in service.lines()
    finally:
        service.close()


@pytest.mark.slow
def test_a_frozen_daemon_pings_no_more(service: Service) -> None:
    service.until("WATCHDOG=1")
    service.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    service.said.clear()
    time.sleep(1.5)
    assert service.heard() == []
    service.process.send_signal(signal.SIGCONT)
    service.until("WATCHDOG=1")


@pytest.mark.slow
def test_a_silent_slurm_stops_the_heartbeat_only_when_the_daemon_is_blind(service: Service, server: Server) -> None:
    wait_until(lambda: service.get("/readyz")[0] == 200)
    (service.bin / "down").touch()
    before = service.get("/metrics")[1].count("chainwatch_poll_errors_total{")
    assert before == 0
    wait_until(lambda: "chainwatch_poll_errors_total{" in service.get("/metrics")[1], 15)
    assert service.get("/readyz")[0] == 200, "one poll without an answer is no blindness"
    assert service.get("/healthz")[0] == 200


@pytest.mark.slow
def test_sigterm_ends_the_daemon_while_sbatch_hangs_and_the_submission_stays_open(tmp_path: Path) -> None:
    """The kind: an effect whose outcome nobody knows. The next daemon looks it up by its token."""
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    chain = {"batch": str(script), "environment": "clean"}
    service = Service(tmp_path, {"chains": {"run": chain}})
    hangs = service.bin / "sbatch"
    hangs.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexec sleep 60\n")
    try:
        wait_until(lambda: "registered" in service.lines(), 30)
        with closing(open_store(tmp_path / "state")) as store:
            store.update_chain("run", retried_at=datetime.now(UTC))
        service.process.send_signal(signal.SIGUSR1)
        wait_until((tmp_path / "called").exists, 20)
        begun = time.monotonic()
        service.process.terminate()
        assert service.process.wait(20) == 0
        assert time.monotonic() - begun < 4  # two seconds, on a machine that has nothing else to do
        assert "Traceback" not in service.lines()
    finally:
        service.close()
    with closing(open_store(tmp_path / "state")) as store:
        [intent] = store.open_intents("run")
        assert intent.tried_at is not None
        assert store.lease() is None


def test_a_wrong_configuration_ends_in_a_line_and_not_in_a_restart_loop_of_tracebacks(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("chains: {a: {bach: x}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "chainwatch.cli", "run", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "c.yaml:1" in done.stderr
    assert "Traceback" not in done.stderr
