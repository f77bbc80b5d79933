"""`chainwatch step`: the daemon's part, done at the head of each batch script, where no daemon may live."""

from __future__ import annotations

import getpass
import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainwatch.cli import common

if TYPE_CHECKING:
    from chainwatch.config.models import Config
    from chainwatch.store import Store
    from chainwatch.supervisor.stepping import Told

TURN = 60.0
"""Seconds that a step waits for its turn: steps of other chains with the same state directory are soon over."""


def step(
    chain: Annotated[
        str | None,
        typer.Argument(metavar="CHAIN", help="Name of the chain.", envvar="CHAINWATCH_CHAIN", callback=common.utf8),
    ] = None,
    config: Annotated[
        Path | None,
        common.config_option("Configuration, for its alerts and clusters."),
    ] = None,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Look after the chain from inside its own job: the first line of a batch script where no daemon may live.

    Judges the last job, decides, sets the checkpoints right, and queues the next job behind this one. Where a daemon has the
    state directory it only waits for the daemon's verdict.

    The reason is on stderr. Exit codes: 0 train; 1 the chain is done; 3 stop (paused, stopped, resting, or the next job runs
    elsewhere); 2 this is no job of the chain, or state or configuration cannot be used.
    """
    from chainwatch.config import load
    from chainwatch.config.models import Config
    from chainwatch.slurm.jobids import parse_job_id
    from chainwatch.supervisor.rules import RULES
    from chainwatch.supervisor.stepping import NotOurs

    job = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID", "")
    if not chain or parse_job_id(job) is None:
        common.fail("step is a line of a chain's batch script: outside a job there is nothing to decide")
    loaded = load(config, RULES).config if config is not None else None
    where = common.state_directory(state, loaded)
    used = (loaded or Config()).model_copy(update={"state": where})
    with common.opened(where, loaded) as store:
        try:
            told = _take(store, used, chain, int(job))
        except NotOurs as e:
            common.fail(str(e))
        if loaded is not None:
            _deliver(store, loaded)
    if json:
        common.print_json({"chain": chain, "next": told.next.name.lower(), "why": told.why})
    else:
        print(f"chainwatch: {chain}: {told.next.name.lower().replace('_', ' ')}: {told.why}", file=sys.stderr)
    raise typer.Exit(told.next.value)


def _take(store: Store, config: Config, chain: str, job: int) -> Told:
    from chainwatch.actions.audit import Audit
    from chainwatch.cli.first import DirectReaders
    from chainwatch.config.site import apply, load_site, pause_reason
    from chainwatch.model.clock import SystemClock
    from chainwatch.store import LeaseHeld
    from chainwatch.store.records import ChainRecord
    from chainwatch.supervisor.clusters import backends
    from chainwatch.supervisor.daemon import holder
    from chainwatch.supervisor.house import House
    from chainwatch.supervisor.poll import Poller
    from chainwatch.supervisor.stepping import LEASE_TTL, NotOurs, Stepping, beside_a_daemon

    def say(sentence: str, record: ChainRecord, facts: object) -> None:
        del facts
        print(f"chainwatch: {record.name}: {sentence}", file=sys.stderr)

    clock, site = SystemClock(), load_site()
    config, _ = apply(site, config)
    clusters = backends(config, store)
    record = store.chain(chain)
    house = House(
        store=store, lease=None, state=Path(config.state), config=config, backends=clusters, readers=DirectReaders(),
        clock=clock, audit=Audit(Path(config.state)), user=getpass.getuser(), uid=os.getuid(), say=say, site=site,
        paused_by_site=pause_reason(),
    )  # fmt: skip
    end = time.monotonic() + TURN
    while True:
        try:
            house.lease = store.acquire_lease(holder(), LEASE_TTL, clock.now())
            break
        except LeaseHeld:
            if time.monotonic() >= end:
                return beside_a_daemon(house, chain, job, time.sleep)
            time.sleep(1)
    try:
        backend = clusters.get(record.cluster) if record is not None else next(iter(clusters.values()))
        if backend is None:
            raise NotOurs(f"the cluster {record.cluster if record else '?'} of {chain} is not configured")
        poller = Poller(backend, clock, house.user, config.poll, random.Random())
        return Stepping(house, poller).take(chain, job)
    finally:
        store.release_lease(house.lease)


def _deliver(store: Store, config: Config) -> None:
    """What is owed is told now: nobody else will."""
    from chainwatch.alerts import Deliverer, build_all
    from chainwatch.alerts.outbox import routes_of
    from chainwatch.config.site import load_site
    from chainwatch.model.clock import SystemClock

    channels = build_all(config.alerts.channels, load_site().allowed_hosts)
    try:
        Deliverer(store, channels, config.alerts, SystemClock(), routes=routes_of(store)).run_due(timedelta(seconds=30))
    except Exception as e:  # noqa: BLE001 - an alert that cannot be told must not keep the job from training
        print(f"chainwatch: alerts could not be delivered: {e}", file=sys.stderr)
