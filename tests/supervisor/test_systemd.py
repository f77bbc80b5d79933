"""What systemd hears, on a real notify socket."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainwatch.model.clock import SystemClock
from chainwatch.supervisor.systemd import Systemd, WatchedClock


class Manager:
    """The socket that systemd would hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(0.2)

    def heard(self) -> list[str]:
        out = []
        try:
            while True:
                out.append(self.socket.recv(4096).decode())
        except TimeoutError:
            return out

    def environment(self, **more: str) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.name, **more}


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@chainwatch-test-{uuid.uuid4()}"
    manager = Manager(name)
    yield manager
    manager.socket.close()


def test_the_life_of_a_service_is_told(manager: Manager) -> None:
    systemd = Systemd(manager.environment())
    systemd.ready("3 chains")
    systemd.status("3 chains")
    systemd.status("4 chains, last poll 12:00:00")
    systemd.reloading()
    systemd.ready()
    systemd.stopping()
    heard = manager.heard()
    assert heard[0] == "READY=1\nSTATUS=3 chains"
    assert heard[1] == "STATUS=4 chains, last poll 12:00:00", "an unchanged status is not sent again"
    reloading = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", heard[2])
    assert reloading
    assert abs(int(reloading[1]) / 1e6 - time.monotonic()) < 5
    assert heard[3:] == ["READY=1", "STOPPING=1"]


def test_a_chain_name_cannot_smuggle_an_assignment(manager: Manager) -> None:
    Systemd(manager.environment()).status("run\nMAINPID=1\x1b[0m")
    assert manager.heard() == ["STATUS=run MAINPID=1 [0m"]


def test_pings_come_only_where_systemd_wants_them_of_this_process(manager: Manager) -> None:
    Systemd(manager.environment()).ping()
    Systemd(manager.environment(WATCHDOG_USEC="1000000", WATCHDOG_PID="1")).ping()
    Systemd(manager.environment(WATCHDOG_USEC="soon")).ping()
    assert manager.heard() == []
    Systemd(manager.environment(WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid()))).ping()
    assert manager.heard() == ["WATCHDOG=1"]


def test_a_long_sleep_pings_and_a_stuck_loop_does_not(manager: Manager) -> None:
    systemd = Systemd(manager.environment(WATCHDOG_USEC="300000"))
    WatchedClock(SystemClock(), systemd).sleep(0.5)
    assert len(manager.heard()) >= 5
    time.sleep(0.4)  # a loop that is stuck: it neither sleeps through the clock nor calls ping
    assert manager.heard() == []


def test_a_long_pass_that_goes_on_pings_now_and_then(manager: Manager) -> None:
    clock = WatchedClock(SystemClock(), Systemd(manager.environment(WATCHDOG_USEC="400000")))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        clock.now()
    assert 3 <= len(manager.heard()) <= 5


def test_a_wake_ends_the_sleep_at_once(manager: Manager) -> None:
    clock = SystemClock()
    timer = threading.Timer(0.1, clock.wake)
    timer.start()
    begun = time.monotonic()
    WatchedClock(clock, Systemd(manager.environment(WATCHDOG_USEC="3000000"))).sleep(20)
    assert time.monotonic() - begun < 2
    timer.join()


def test_a_wake_in_the_last_moment_of_a_slice_is_no_end_of_the_slice(manager: Manager) -> None:
    """The kind: whether somebody wants something is guessed from how long a sleep took."""

    class Late(SystemClock):
        def sleep(self, seconds: float) -> bool:
            time.sleep(seconds)
            return True

    begun = time.monotonic()
    assert WatchedClock(Late(), Systemd(manager.environment(WATCHDOG_USEC="300000"))).sleep(20)
    assert time.monotonic() - begun < 2


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    for name in ("", "vsock:2:1", str(tmp_path / "gone")):
        systemd = Systemd({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "5"})
        systemd.ready("x")
        systemd.ping()


def test_another_process_is_heard_too(manager: Manager) -> None:
    code = "from chainwatch.supervisor.systemd import Systemd; Systemd().ready('from a daemon')"
    environment = {**os.environ, "NOTIFY_SOCKET": manager.name}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert manager.heard() == ["READY=1\nSTATUS=from a daemon"]
