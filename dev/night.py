"""One night of a training run on a real cluster, as a play in acts: the demo tells it, and a test checks it.

A job is preempted while it saves. The naive next job dies of the torn checkpoint, while chainwatch only observes. Then
chainwatch acts: the chain comes back from the intact step, is preempted again, times out, loses a node, and is done.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chainwatch.cli.common import opened
from chainwatch.model.chain import Attempt, ChainState
from dev.cluster import PrivateCluster

HERE = Path(__file__).resolve().parent
CHAIN = "night"
STEPS = 240
SAVE_EVERY = 10
Tell = Callable[[str], None]

_SCRIPT = """#!/bin/bash
#SBATCH --job-name=night
#SBATCH --nodes=2 --ntasks=2
#SBATCH --qos=extra --no-requeue
#SBATCH --time=1
#SBATCH --output=logs/%x-%j.out
srun {python} {train} --checkpoints checkpoints --resume auto \\
    --steps {steps} --save-every {save_every} --step-seconds 0.3 --save-seconds 2 --megabytes 8
"""
_CONFIG = """\
state: state
poll: 2s
settle: 25s
chains:
  night:
    mode: observe
    batch: train.sbatch
    checkpoints:
      directory: checkpoints
      hand_over: set_aside      # the training script picks the highest number, as many do
      settle: 5s
    done:
      step: {steps}
      mark: training finished at step
"""


class Night:
    """The stage: a cluster, a run directory with script and configuration, and the daemon."""

    def __init__(self, cluster: PrivateCluster, directory: Path, tell: Tell) -> None:
        self.cluster = cluster
        self.directory = directory
        self.tell = tell
        source = str(HERE.parent / "src")
        self.env = {**cluster.env, "PYTHONUNBUFFERED": "1", "PYTHONPATH": source}
        self._daemon: subprocess.Popen[bytes] | None = None
        (directory / "logs").mkdir(parents=True)
        fill = {"python": sys.executable, "train": HERE / "train.py", "steps": STEPS, "save_every": SAVE_EVERY}
        (directory / "train.sbatch").write_text(_SCRIPT.format(**fill))
        (directory / "chainwatch.yaml").write_text(_CONFIG.format(**fill))

    # -- chainwatch, as a person uses it

    def chainwatch(self, *words: str) -> str:
        """Run a command against the night's state; its output. Raises CalledProcessError."""
        done = subprocess.run(
            [sys.executable, "-m", "chainwatch.cli", *words],
            env={**self.env, "CHAINWATCH_STATE": str(self.directory / "state")},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise RuntimeError(f"chainwatch {' '.join(words)}: exit {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def start(self) -> None:
        """Start the daemon; its lines go to `daemon.log`."""
        log = (self.directory / "daemon.log").open("ab")
        self._daemon = subprocess.Popen(
            [sys.executable, "-m", "chainwatch.cli", "run", "chainwatch.yaml", "--human"],
            env=self.env,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()

    def stop(self, *, kill: bool = False) -> None:
        """End the daemon: in order, or as a power cut does."""
        if self._daemon is None:
            return
        if kill:
            self._daemon.kill()
        else:
            self._daemon.terminate()
        self._daemon.wait(20)
        self._daemon = None

    def status(self) -> dict[str, Any]:
        return next(c for c in json.loads(self.chainwatch("status", "--json")) if c["chain"] == CHAIN)

    def attempts(self) -> list[dict[str, Any]]:
        return list(json.loads(self.chainwatch("history", CHAIN, "--json"))["attempts"])

    # -- what the play waits for is read from the store, since a command starts a Python for each look

    def _attempts(self) -> tuple[Attempt, ...]:
        with opened(self.directory / "state") as store:
            return store.attempts(CHAIN)

    def _is_done(self) -> bool:
        with opened(self.directory / "state") as store:
            record = store.chain(CHAIN)
            return record is not None and record.state is ChainState.DONE

    # -- acts

    def play(self) -> None:
        """The whole night, to the end."""
        self.tell("evening: the run is submitted; chainwatch only observes")
        self.start()
        self.until(
            lambda: bool(json.loads(self.chainwatch_or("[]", "status", "--json"))), 60, "the daemon knows the chain"
        )
        self.tell(self.chainwatch("submit", CHAIN, "-c", "chainwatch.yaml").strip())
        self.preempt_while_saving(20)
        self.wait_judged(1)
        self.tell("nobody watches: a naive script submits the next job, and it picks the highest step")
        job = self.cluster.sbatch(
            self.directory / "train.sbatch", f"--output={self.directory}/logs/%x-%j.out", cwd=self.directory
        )
        self.cluster.wait(job, "FAILED", timeout=90)
        self.wait_judged(2)
        self.tell("it died of the torn checkpoint. From here on chainwatch acts")
        self.tell(self.chainwatch("mode", CHAIN, "act").strip())
        self.wait_attempt(3, "RUNNING")
        self.preempt_while_saving(30)
        self.wait_attempt(4, "RUNNING")
        self.tell("the next job runs into its time limit")
        self.until(lambda: len(self._attempts()) >= 5, 150, "the job timed out and the next one began")
        self.wait_attempt(5, "RUNNING")
        self.lose_node()
        self.until(self._is_done, 180, "the chain is done")
        self.tell("the run is done; chainwatch goes on watching, and submits nothing")
        time.sleep(6)

    def preempt_while_saving(self, step: int) -> None:
        """A job of a higher QOS takes the nodes while rank 0's model state of a step at or after `step` is written."""
        torn = self.wait_for_save(step)
        self.tell(f"a job of a higher QOS needs the nodes, while {torn.parent.name}/{torn.name} is being written")
        self.cluster.sbatch(
            "sleep 3", "--qos=normal", "--exclusive", f"--nodes={len(self.cluster.nodes)}", "--job-name=urgent"
        )

    def wait_for_save(self, step: int) -> Path:
        """The model state that is being written now, of a step at or after `step`."""
        found: list[Path] = []

        def saving() -> bool:
            found.clear()
            for directory in (self.directory / "checkpoints").glob("global_step*"):
                number = re.fullmatch(r"global_step(\d+)", directory.name)
                state = directory / "mp_rank_00_model_states.pt"
                if number and int(number[1]) >= step and state.exists() and 100_000 < state.stat().st_size < 6_000_000:
                    found.append(state)
            return bool(found)

        self.until(saving, 120, f"a checkpoint at or after step {step} is being written", pause=0.05)
        return found[0]

    def lose_node(self) -> None:
        """The node of the running job that is not the first is set down."""
        time.sleep(3)
        names = self.cluster.run("squeue", "-h", "-t", "R", "-n", CHAIN, "-o", "%N").stdout.strip()
        node = self.cluster.run("scontrol", "show", "hostnames", names).stdout.split()[-1]
        self.tell(f"node {node} is lost")
        self.cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def wait_judged(self, number: int) -> None:
        """The attempt of this number ended, and chainwatch said why."""

        def judged() -> bool:
            attempts = self._attempts()
            return len(attempts) >= number and attempts[number - 1].verdict is not None

        self.until(judged, 120, f"attempt {number} is judged")

    def wait_attempt(self, number: int, state: str) -> None:
        def there() -> bool:
            attempts = self._attempts()
            return len(attempts) >= number and attempts[number - 1].job.state == state

        self.until(there, 120, f"attempt {number} is {state}")

    def chainwatch_or(self, otherwise: str, *words: str) -> str:
        try:
            return self.chainwatch(*words)
        except RuntimeError:
            return otherwise

    def until(self, true: Callable[[], bool], timeout: float, what: str, pause: float = 0.5) -> None:
        """Wait until `true()`; the daemon must live meanwhile. Raises TimeoutError with the end of its log."""
        deadline = time.monotonic() + timeout
        while not true():
            if self._daemon is not None and self._daemon.poll() is not None:
                raise RuntimeError(f"the daemon ended with {self._daemon.returncode}:\n{self.log()[-3000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout:g} s: {what}\n{self.log()[-3000:]}")
            time.sleep(pause)

    def log(self) -> str:
        try:
            return (self.directory / "daemon.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
