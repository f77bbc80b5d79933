"""chainwatch as people run it: commands and daemons as processes, on a configuration of one chain."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dev.cluster import PrivateCluster

from chainwatch.cli.__main__ import main

SOURCE = Path(__file__).parents[2] / "src"
SCRIPT = "#!/bin/bash\n#SBATCH --output=%x-%j.out\n. ./behaviour\n"
CONFIG = """\
state: {state}
poll: 1s
settle: 25s
chains:
  {name}:
    batch: train.sh
    sbatch: [--job-name={name}, --time=10, --no-requeue]
    done: {{mark: training finished}}
    recovery: {{backoff: 1s, backoff_max: 1s, quick_failure: 0s}}
"""
FAIL = "echo 'RuntimeError: NCCL error: remote process exited or there was a network error'; sleep 1; exit 1"
WHEN_TOLD = f"while [ ! -e fail ]; do sleep 0.2; done; {FAIL}"
"""Run until the file `fail` is there."""
DONE = "echo training finished"


class Service:
    """A configuration with one chain, and chainwatch's commands on it."""

    def __init__(self, cluster: PrivateCluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.name = f"run-{uuid.uuid4().hex[:8]}"
        self.state = directory / "state"
        self.environment = {**cluster.env, "PYTHONPATH": str(SOURCE), "CHAINWATCH_STATE": str(self.state)}
        (directory / "train.sh").write_text(SCRIPT)
        (directory / "conf.yaml").write_text(CONFIG.format(state=self.state, name=self.name))
        self.behave("sleep 600")
        self.daemons: list[subprocess.Popen[str]] = []

    def behave(self, what: str) -> None:
        (self.directory / "behaviour").write_text(what + "\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command, in this process: most of a command's time is Python's start."""
        out, err = io.StringIO(), io.StringIO()
        here = os.getcwd()
        os.chdir(self.directory)
        try:
            with patch.dict(os.environ, self.environment, clear=True), redirect_stdout(out), redirect_stderr(err):
                code = main(list(words))
        finally:
            os.chdir(here)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        log = (self.directory / f"daemon-{len(self.daemons)}.log").open("w")
        with log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "chainwatch.cli", "run", "conf.yaml", "--human", *words],
                env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        self.daemons.append(daemon)
        return daemon

    def log(self) -> str:
        return "".join(p.read_text() for p in sorted(self.directory.glob("daemon-*.log")))

    def until(self, true: Callable[[], object], what: str, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while not true():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}\n{self.log()}"
            time.sleep(0.5)

    def chain_state(self) -> str:
        done = self.run("status", "--json")
        return str(json.loads(done.stdout)[0]["state"]) if done.returncode == 0 else ""

    def jobs(self) -> list[str]:
        shown = self.cluster.run("squeue", "-h", "-t", "all", "-o", "%A", f"--name={self.name}").stdout.split()
        known = self.cluster.run("sacct", "-nXP", "-o", "JobIDRaw", f"--name={self.name}", "-S", "now-1hour").stdout
        return sorted({*shown, *known.split()}, key=int)

    def close(self) -> None:
        """End every daemon, and every job of the chain."""
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()
        self.cluster.run("scancel", f"--name={self.name}", check=False)
