"""A stand-in for the library pyslurm: what a test wrote into the file PYSLURM_DOUBLE is what happens in the next call.

The file is JSON: `jobs` and `nodes` (attributes; the rest is plausible), `slurm` (the cluster's release), and `then`:
`freeze`, `segfault`, `leak`, `exit`, `sleep`, `print`, `die slowly`, or an error to raise.
"""

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

__version__ = "26.5.1"
_HELD = []


class RPCError(Exception):
    def __init__(self, number, message):
        super().__init__(message)
        self.errno = number


def _script():
    return json.loads(Path(os.environ["PYSLURM_DOUBLE"]).read_text())


def _happen():
    then = _script().get("then", "")
    if then == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif then == "segfault":
        ctypes.string_at(0)
    elif then == "leak":
        _HELD.append(bytearray(os.urandom(1)) * 40_000_000)
    elif then == "exit":
        os._exit(1)
    elif then == "sleep":
        time.sleep(600)
    elif then == "print":
        os.write(1, b"python: error: slurm says something\n")
    elif then.startswith("error"):
        raise RPCError(1800, "Unable to contact slurm controller (connect failure)")


class Jobs:
    @staticmethod
    def load():
        _happen()
        return {n: SimpleNamespace(**{**_JOB, **job}) for n, job in enumerate(_script().get("jobs", []))}


class Nodes:
    @staticmethod
    def load():
        _happen()
        return {n: SimpleNamespace(**{**_NODE, **node}) for n, node in enumerate(_script().get("nodes", []))}


class _Config:
    @staticmethod
    def load():
        script = _script()
        return SimpleNamespace(version=script.get("slurm", "26.05.5"), cluster_name=script.get("cluster", "lab"))


slurmctld = SimpleNamespace(Config=_Config)

_JOB = {
    "id": 7, "state": "RUNNING", "state_reason": "None", "submit_time": 1795973000, "start_time": 1795973100,
    "end_time": 1795976700, "preempt_time": None, "array_id": None, "array_task_id": None, "array_tasks_waiting": None,
    "array_tasks_parallel": None, "heterogeneous_id": None, "heterogeneous_offset": None, "time_limit": 60,
    "requeue_count": 0, "is_requeueable": True, "priority": 100, "cpus": 8, "allocated_nodes": "n1", "user_id": 0,
    "partition": "gpu", "qos": "normal", "account": "lab", "dependencies": None, "working_directory": "/home/ann",
    "standard_output": "/home/ann/7.out", "standard_error": "", "command": "/home/ann/a.sh", "name": "train",
    "comment": None, "failed_node": None, "submit_line": "sbatch a.sh",
}  # fmt: skip
_NODE = {
    "name": "n1", "state": "IDLE+DRAIN", "reason": "bad fan", "reason_user": "root", "reason_time": 1795973000,
    "boot_time": 1795900000, "partitions": ["gpu"],
}  # fmt: skip
