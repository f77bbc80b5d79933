"""The clusters of a configuration, as backends by name."""

from __future__ import annotations

import os

from chainwatch.config.models import Config
from chainwatch.slurm import CliBackend, Deadlines
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.store import Store

_LOCAL = "local_cluster_name"


def backends(config: Config, store: Store | None = None) -> dict[str, Backend]:
    """One backend per configured cluster; without any, the one that Slurm's own configuration names.

    The local cluster's name is remembered in the store, so that a daemon can start while the controller is down. Raises
    NoInformation where it was never known and nobody answers.
    """
    slurm = config.slurm
    seconds = slurm.deadline.total_seconds()
    deadlines = Deadlines(query=seconds, act=seconds, submit=max(seconds, 120.0))
    conf = str(slurm.conf) if slurm.conf else os.environ.get("SLURM_CONF")
    bin_dir = str(slurm.bin) if slurm.bin else None
    if slurm.clusters:
        return {
            name: CliBackend(name, conf, bin_dir, deadlines=deadlines, by_clusters_option=True)
            for name in slurm.clusters
        }
    name = _local_name(CliBackend("", conf, bin_dir, deadlines=deadlines), store)
    return {name: CliBackend(name, conf, bin_dir, deadlines=deadlines)}


def _local_name(backend: CliBackend, store: Store | None) -> str:
    try:
        name = backend.info().name
    except NoInformation:
        known = store.recall(_LOCAL) if store is not None else None
        if isinstance(known, str) and known:
            return known
        raise
    if store is not None and store.recall(_LOCAL) != name:
        store.remember(_LOCAL, name)
    return name
