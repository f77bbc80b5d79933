"""A whole private Slurm in one directory: munge, MariaDB, slurmdbd, slurmctld and several slurmd."""

from dev.slurm.cluster import PrivateCluster
from dev.slurm.installation import ClusterError, missing_programs
from dev.slurm.settings import Settings

__all__ = ["ClusterError", "PrivateCluster", "Settings", "missing_programs"]
