"""Ends a private cluster when the process that booted it is gone (`python -m dev.slurm.guard ROOT`, started by it).

Standard input is a pipe that only that process holds open: its end is read when the process dies, by whatever means.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dev.slurm.cluster import PrivateCluster


def main() -> None:
    """Wait for the end of standard input, then end the cluster."""
    while sys.stdin.buffer.read(4096):
        pass
    PrivateCluster.attach(Path(sys.argv[1])).down()


if __name__ == "__main__":
    main()
