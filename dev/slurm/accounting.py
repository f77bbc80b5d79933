"""The accounting of the private cluster: its database, its cluster, QOS, account and user."""

from __future__ import annotations

import subprocess

from dev.slurm.client import Client
from dev.slurm.installation import ClusterError, search_path, user_name
from dev.slurm.settings import QOS, Layout, Settings


def install_database(client: Client, layout: Layout) -> None:
    """Make MariaDB's data directory, with a root who needs no password on the socket; once per cluster."""
    if (layout.database / "mysql").is_dir():
        return
    argv = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
    argv += [f"--datadir={layout.database}", f"--user={user_name()}"]
    # A MariaDB that starts removes what others left in its temporary directory, so it must not be shared.
    env = {**client.env, "PATH": search_path(client.env), "TMPDIR": str(layout.run)}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=layout.root)
    if done.returncode != 0:
        raise ClusterError(f"mariadb-install-db failed: {(done.stderr or done.stdout).strip()[-600:]}")


def create_database(client: Client, layout: Layout) -> None:
    """The database itself: with MariaDB 11.8 a slurmdbd that has to create it fails with error 5027."""
    sql = "CREATE DATABASE IF NOT EXISTS slurm_acct"
    client.run("mariadb", "--no-defaults", f"--socket={layout.database_socket}", "-u", "root", "-e", sql)


def fill(client: Client, cluster: str, settings: Settings) -> None:
    """The cluster with its three QOS, an account `lab` and the user who runs it; nothing if it is known already."""
    if cluster in client.run("sacctmgr", "-n", "-P", "show", "cluster", "format=cluster").stdout.split():
        return

    def sacctmgr(*argv: str) -> None:
        client.run("sacctmgr", "-i", *argv)

    sacctmgr("add", "cluster", cluster)
    preemptable = {qos: mode for qos, mode in QOS.items() if mode is not None}
    if not settings.beside:  # a neighbour's are everybody's
        sacctmgr("add", "qos", ",".join(preemptable))
        for qos, mode in preemptable.items():
            sacctmgr("modify", "qos", qos, "set", "priority=1", f"preemptmode={mode}", f"gracetime={settings.grace}")
        sacctmgr("modify", "qos", "normal", "set", "priority=100", f"preempt={','.join(preemptable)}")
    # Set at the cluster's root, and so inherited by every account and user that a test adds.
    sacctmgr("modify", "cluster", cluster, "set", f"qos={','.join(QOS)}", "defaultqos=normal")
    sacctmgr("add", "account", "lab", f"cluster={cluster}", "description=lab", "organization=lab")
    sacctmgr("add", "user", user_name(), "account=lab", f"cluster={cluster}")
