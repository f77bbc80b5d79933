"""The daemons of one private cluster, in the order in which they start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dev.slurm.installation import search_path, user_name
from dev.slurm.processes import Daemon
from dev.slurm.settings import Layout


def describe_daemons(layout: Layout, nodes: Sequence[str], client_env: Mapping[str, str]) -> list[Daemon]:
    """munged, mariadb, slurmdbd, slurmctld and a slurmd for each node; none is started."""
    logs, run = layout.logs, layout.run
    env = {**client_env, "PATH": search_path(client_env)}
    # slurmdbd has no option for its database's socket; the client library takes it from this variable.
    dbd_env = {**env, "MYSQL_UNIX_PORT": str(layout.database_socket)}
    munged = [
        "munged",
        "--foreground",
        "--force",
        "--num-threads=2",
        f"--key-file={layout.munge_key}",
        f"--socket={layout.munge_socket}",
        f"--pid-file={run}/munged.pid",
        f"--seed-file={run}/munge.seed",
        f"--log-file={logs}/munged.log",
    ]
    mariadb = [
        "mariadbd",
        "--no-defaults",
        f"--user={user_name()}",
        f"--datadir={layout.database}",
        f"--socket={layout.database_socket}",
        "--skip-networking",
        f"--pid-file={run}/mariadb.pid",
        f"--tmpdir={run}",
        "--performance-schema=OFF",
        "--innodb-buffer-pool-size=32M",
        "--innodb-flush-log-at-trx-commit=0",
        "--loose-innodb-snapshot-isolation=OFF",
    ]
    return [
        Daemon("munged", munged, env, logs / "munged.log", run),
        Daemon("mariadb", mariadb, env, logs / "mariadb.log", run),
        Daemon("slurmdbd", ["slurmdbd", "-D"], dbd_env, logs / "slurmdbd.log", run),
        Daemon("slurmctld", ["slurmctld", "-D", "-f", str(layout.conf)], env, logs / "slurmctld.log", run),
        *(
            Daemon(f"slurmd:{node}", ["slurmd", "-D", "-N", node], env, logs / f"slurmd-{node}.log", run)
            for node in nodes
        ),
    ]
