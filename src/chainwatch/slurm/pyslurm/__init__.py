"""The pyslurm backend: a worker process that has the library, and the command line tools beside it."""

from chainwatch.slurm.pyslurm.backend import PyslurmBackend, installed
from chainwatch.slurm.pyslurm.process import CallFailed, Worker, WorkerFailed

__all__ = ["CallFailed", "PyslurmBackend", "Worker", "WorkerFailed", "installed"]
