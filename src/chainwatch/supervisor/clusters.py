"""The clusters of a configuration, as backends by name."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from pydantic import ValidationError

from chainwatch.config.models import Config, Slurm
from chainwatch.slurm import CliBackend, Deadlines
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.slurm.process import client_environment
from chainwatch.slurm.pyslurm import PyslurmBackend, Worker, installed
from chainwatch.store import Store

_LOCAL = "local_cluster_name"
_SETTINGS = "slurm_settings"
Say = Callable[[str], None]


def backends(
    config: Config, store: Store | None = None, say: Say = logging.getLogger(__name__).warning
) -> dict[str, Backend]:
    """One backend per configured cluster; without any, the one that Slurm's own configuration names.

    `say` is told whenever the command line tools step in for pyslurm.

    The local cluster's name is remembered in the store, so that a daemon can start while the controller is down. Raises
    NoInformation where it was never known and nobody answers.
    """
    slurm = config.slurm
    if slurm.confs or slurm.clusters:
        own = {
            name: _backend(_cli(name, slurm, str(conf)), slurm, str(conf), say) for name, conf in slurm.confs.items()
        }
        conf = _local_conf(slurm)
        # The library speaks to the cluster of its slurm.conf alone.
        return {**own, **{name: _cli(name, slurm, conf, by_clusters_option=True) for name in slurm.clusters}}
    conf = _local_conf(slurm)
    name = _local_name(_cli("", slurm, conf), store)
    return {name: _backend(_cli(name, slurm, conf), slurm, conf, say)}


def remember(config: Config, store: Store) -> None:
    """Note how the daemon reaches its clusters, for commands that are given no configuration."""
    settings = config.slurm.model_dump(mode="json")
    if store.recall(_SETTINGS) != settings:
        store.remember(_SETTINGS, settings)


def reachable(store: Store) -> dict[str, Backend]:
    """The clusters of this shell and of the daemon whose state this is. Raises NoInformation where there is none."""
    try:
        known = Slurm.model_validate(store.recall(_SETTINGS) or {})
    except ValidationError:
        known = Slurm()
    daemons = backends(Config(slurm=known), store) if known.confs or known.clusters else {}
    try:
        return {**backends(Config(), store), **daemons}
    except NoInformation:
        if daemons:
            return daemons
        raise


def reach(name: str, store: Store) -> Backend:
    """One cluster, for a command that is given no configuration: the daemon's way to it, else by --clusters (-M)."""
    return reachable(store).get(name) or _cli(name, Slurm(), _local_conf(Slurm()), by_clusters_option=True)


def _local_conf(slurm: Slurm) -> str | None:
    return str(slurm.conf) if slurm.conf else os.environ.get("SLURM_CONF")


def _cli(name: str, slurm: Slurm, conf: str | None, *, by_clusters_option: bool = False) -> CliBackend:
    seconds = slurm.deadline.total_seconds()
    return CliBackend(
        name,
        conf,
        str(slurm.bin) if slurm.bin else None,
        deadlines=Deadlines(query=seconds, act=seconds, submit=max(seconds, 120.0)),
        by_clusters_option=by_clusters_option,
        has_accounting=None if slurm.accounting else False,
    )


def _backend(cli: CliBackend, slurm: Slurm, conf: str | None, say: Say) -> Backend:
    """By pyslurm where the configuration wants it, or where it is there and nobody says otherwise."""
    wanted = slurm.backend == "pyslurm" or (slurm.backend == "auto" and (slurm.pyslurm_python or installed()))
    if not wanted:
        return cli
    worker = Worker(
        str(slurm.pyslurm_python) if slurm.pyslurm_python else sys.executable, client_environment(os.environ, conf)
    )
    seconds = slurm.deadline.total_seconds()
    return PyslurmBackend(cli, worker, deadline=seconds, insist=slurm.backend == "pyslurm", say=say)


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
