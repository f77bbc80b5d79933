"""Keeping the worker: started when needed, asked within a deadline, killed when it is late, replaced when it is old."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

SOURCE = Path(__file__).with_name("worker.py")


class WorkerFailed(Exception):
    """The worker gave no answer, and none is to be expected from it: one sentence with the reason."""


class CallFailed(Exception):
    """The worker is well, and the library said no. `number` is Slurm's error number, where there is one."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class Worker:
    """One worker process at a time, for one cluster.

    Parameters
    ----------
    python
        The Python that has pyslurm.
    environment
        All of its environment, SLURM_CONF included.
    most_calls, most_memory
        After so many calls, or above so many resident bytes, it is replaced before it is asked again.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        *,
        source: Path = SOURCE,
        most_calls: int = 1000,
        most_memory: int = 2**29,
    ) -> None:
        self._argv = [python, "-c", source.read_text()]
        self._environment = dict(environment)
        self._most_calls = most_calls
        self._most_memory = most_memory
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._calls = 0
        self._pending = b""
        self._lock = threading.Lock()
        self.started = 0
        """How many processes there have been."""

    def call(self, name: str, about: object = None, *, deadline: float) -> Any:
        """The answer to one of the worker's questions. Raises `WorkerFailed`, `CallFailed`.

        It never takes longer than `deadline` seconds, start of the process included: a worker that is late is killed.
        """
        until = time.monotonic() + deadline
        if not self._lock.acquire(timeout=deadline):
            raise WorkerFailed(f"the pyslurm process was busy with other questions for {deadline:g} s")
        try:
            return self._ask(name, about, deadline, until)
        finally:
            self._lock.release()

    def _ask(self, name: str, about: object, deadline: float, until: float) -> Any:
        process = self._fresh()
        self._calls += 1
        request = json.dumps({"id": self._calls, "call": name, "about": about}).encode() + b"\n"
        try:
            self._send(process, request, until)
            line = self._line(process, until)
            reply = json.loads(line)
            if reply["id"] != self._calls:
                raise ValueError("an answer to another question")
        except TimeoutError:
            self.stop()
            raise WorkerFailed(
                f"the pyslurm process did not answer {name} within {deadline:g} s and was killed"
            ) from None
        except (OSError, EOFError):
            raise WorkerFailed(f"the pyslurm process {self._how_it_ended()}") from None
        except (ValueError, KeyError, TypeError) as problem:
            self.stop()
            raise WorkerFailed(f"the pyslurm process answered {name} with something else: {problem}") from None
        except BaseException:
            self.stop()
            raise
        if "error" in reply:
            number = reply.get("number")
            raise CallFailed(str(reply["error"])[:300], number if isinstance(number, int) else None)
        return reply["value"]

    def stop(self) -> None:
        """End the process, if there is one. May be called at any time, and twice."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)  # not longer: it may hang in the kernel, and dies when it wakes

    @property
    def pid(self) -> int:
        """Of the running process; 0 where there is none."""
        return self._process.pid if self._process is not None else 0

    @property
    def memory(self) -> int:
        """Resident bytes of the process; 0 where there is none."""
        if self._process is None:
            return 0
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _fresh(self) -> subprocess.Popen[bytes]:
        """The running process, or a new one where it is gone, has answered enough or has grown."""
        process = self._process
        worn = self._calls >= self._most_calls or self.memory > self._most_memory
        if process is not None and not worn and process.poll() is None:
            return process
        self.stop()
        if self._said is not None:
            self._said.close()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        self._calls, self._pending = 0, b""
        self.started += 1
        try:
            self._process = subprocess.Popen(
                self._argv,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            raise WorkerFailed(f"{self._argv[0]} cannot be started: {problem.strerror}") from problem
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        os.set_blocking(self._process.stdout.fileno(), False)
        return self._process

    def _send(self, process: subprocess.Popen[bytes], request: bytes, until: float) -> None:
        assert process.stdin is not None
        while request:
            _await(process.stdin.fileno(), select.POLLOUT, until)
            request = request[os.write(process.stdin.fileno(), request) :]

    def _line(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        assert process.stdout is not None
        parts = [self._pending]
        while b"\n" not in parts[-1]:
            _await(process.stdout.fileno(), select.POLLIN, until)
            part = os.read(process.stdout.fileno(), 2**18)
            if not part:
                raise EOFError
            parts.append(part)
        line, _, self._pending = b"".join(parts).partition(b"\n")
        return line

    def _how_it_ended(self) -> str:
        """What became of a process that hung up, with the last thing that it said."""
        process, said = self._process, self._said
        code: int | None = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=1)
        self.stop()
        how = "hung up" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        last = ""
        if said is not None:
            size = said.seek(0, os.SEEK_END)
            said.seek(max(0, size - 2000))
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            last = lines[-1].strip()[:200] if lines else ""
        return f"{how}: {last}" if last else how


def _await(descriptor: int, event: int, until: float) -> None:
    """Wait until a pipe is ready, or hung up. Raises TimeoutError."""
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError
