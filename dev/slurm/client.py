"""The private cluster as its user sees it: submit, look, wait."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dev.slurm.installation import ClusterError, client_environment, user_name


class Client:
    """Slurm's own commands against one configuration, for tests and the demo."""

    def __init__(self, root: Path, conf: Path, commands: Path | None = None) -> None:
        self.root = root
        self.conf = conf
        self.env = client_environment(conf, commands)
        """The complete environment for client commands: the caller's, without SLURM_* and the like, and SLURM_CONF."""

    def run(
        self,
        *argv: str,
        check: bool = True,
        stdin: str | None = None,
        timeout: float = 60,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a client command against the cluster.

        Raises `ClusterError` on a non-zero exit, unless `check` is False.
        """
        done = subprocess.run(
            argv,
            env=env or self.env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            cwd=cwd or self.root,
        )
        if check and done.returncode != 0:
            raise ClusterError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done

    def sbatch(self, script: str | Path, *options: str, args: Sequence[str] = (), cwd: Path | None = None) -> int:
        """Submit a script (a path, or the text of one; a shebang is added where it has none) and return the job's id.

        Without `--output` among the options the log goes to `root/jobs/JOBID.log`.
        """
        if isinstance(script, Path):
            path = script
        else:
            handle, written = tempfile.mkstemp(suffix=".sh", dir=self.jobs)
            with os.fdopen(handle, "w") as stream:
                stream.write(script if script.startswith("#!") else f"#!/bin/bash\n{script}\n")
            path = Path(written)
        if not any(re.match(r"--output|-o", option) for option in options):
            options = (f"--output={self.jobs}/%j.log", *options)
        done = self.run("sbatch", "--parsable", *options, str(path), *args, cwd=cwd or self.jobs)
        return int(done.stdout.strip().split(";")[0])

    @property
    def jobs(self) -> Path:
        """Where `sbatch` puts scripts and logs."""
        path = self.root / "jobs"
        path.mkdir(exist_ok=True)
        return path

    def job_log(self, job_id: int) -> str:
        """What a job of `sbatch` printed so far."""
        try:
            return (self.jobs / f"{job_id}.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def state(self, job_id: int) -> str:
        """The job's state as the controller has it, else as accounting has it; "" where neither knows it.

        For waiting in tests; what chainwatch concludes from is `chainwatch.slurm`.
        """
        shown = self.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job_id), check=False)
        states = shown.stdout.split()
        if not states:
            shown = self.run("sacct", "-n", "-X", "-P", "-o", "State", "-j", str(job_id), check=False)
            states = [line.split()[0] for line in shown.stdout.splitlines() if line.strip()]
        return states[-1] if states else ""

    def wait(self, job_id: int, *states: str, timeout: float = 60) -> str:
        """Wait until the job is in one of the states; which one it is. Raises `ClusterError`."""
        self.until(lambda: self.state(job_id) in states, timeout, f"job {job_id} is {' or '.join(states)}")
        return self.state(job_id)

    def until(self, true: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until `true()`. Raises `ClusterError` that names `what` did not come."""
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {timeout:g} s: {what}")
            time.sleep(0.2)

    def node_state(self, node: str) -> str:
        """`idle`, `mixed`, `allocated+completing`, `down*` and so on.

        From scontrol: after a restart of the controller 22.05's sinfo goes on saying `mixed` of an idle node.
        """
        shown = self.run("scontrol", "-o", "show", "node", node, check=False).stdout
        match = re.search(r"\bState=(\S+)", shown)
        return match[1].lower() if match else ""

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left running."""
        self.run("scancel", "--hurry", f"--user={user_name()}", check=False)
        self.until(lambda: not self.run("squeue", "-h", check=False).stdout.strip(), 60, "no job is left")
