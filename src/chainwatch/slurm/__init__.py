"""What Slurm says, and how to ask it for things."""

from chainwatch.slurm.backend import (
    Backend,
    ClusterInfo,
    Inside,
    NoInformation,
    Refusal,
    Refused,
    SlurmError,
    Submission,
    SubmitUncertain,
)
from chainwatch.slurm.cli import CliBackend, Deadlines

__all__ = [
    "Backend",
    "CliBackend",
    "ClusterInfo",
    "Deadlines",
    "Inside",
    "NoInformation",
    "Refusal",
    "Refused",
    "SlurmError",
    "Submission",
    "SubmitUncertain",
]
