"""The private cluster for people: `python -m dev.cluster up|shell|status|down [DIRECTORY]`.

`up` boots it (with `--suite trixie` or `sid` that Debian suite's Slurm, in a chroot) and leaves it running, `shell` opens a
shell whose Slurm commands mean it, `down` ends every process of it. Without DIRECTORY it is `.lab` in the current
directory. Tests use `PrivateCluster` from here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from dev.slurm import ClusterError, PrivateCluster, Settings, missing_programs
from dev.slurm.suites import SUITES, SuiteUnavailable, tree

__all__ = ["ClusterError", "PrivateCluster", "Settings", "missing_programs"]


def main(argv: list[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dev.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("up", "shell", "status", "down"))
    parser.add_argument("directory", nargs="?", type=Path, default=Path(".lab"))
    parser.add_argument("--nodes", type=int, default=4, help="how many nodes (up; default 4)")
    parser.add_argument("--preempt", choices=("cancel", "requeue"), default="cancel", help="PreemptMode (up)")
    parser.add_argument("--suite", choices=tuple(SUITES), help="run another Debian suite's Slurm, as root (up)")
    chosen = parser.parse_intermixed_args(argv)  # options before or after the directory
    try:
        if chosen.action == "up":
            system = str(tree(SUITES[chosen.suite])) if chosen.suite else ""
            settings = Settings(nodes=chosen.nodes, preempt=chosen.preempt, system=system)
            cluster = PrivateCluster.boot(chosen.directory, settings, guard=False, say=print)
            if system:
                print(f'export PATH={cluster.layout.commands}:"$PATH"')
            print(f"export SLURM_CONF={cluster.conf}")
            return 0
        cluster = PrivateCluster.attach(chosen.directory)
        if chosen.action == "down":
            cluster.down()
            return 0
        if not cluster.running():
            raise ClusterError(f"the cluster in {chosen.directory} is down: python -m dev.cluster up")
        command = ["sinfo"] if chosen.action == "status" else [os.environ.get("SHELL", "/bin/bash")]
        return subprocess.run(command, env=cluster.env).returncode
    except (ClusterError, SuiteUnavailable) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
