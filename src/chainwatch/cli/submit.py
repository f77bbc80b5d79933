"""`chainwatch submit CHAIN`: the first job of a chain."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions.tag import find, short_instance
from chainwatch.cli import common
from chainwatch.cli.attended import warn_of_another, warn_of_another_state, warn_unattended
from chainwatch.cli.first import captured_environment, captured_umask, submit_first
from chainwatch.cli.registering import job_id_of, registered
from chainwatch.config import load
from chainwatch.model.chain import Desired
from chainwatch.model.job import Job
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.clusters import backends, reachable
from chainwatch.supervisor.rules import with_scripts


def submit(
    chain: common.ChainName,
    config: Annotated[
        Path | None,
        common.config_option("Configuration that defines the chain, if it is not known yet."),
    ] = None,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit the first job of a chain, with the environment of this shell.

    Exit codes: 0 submitted; 1 no such chain; 3 refused, by Slurm, the site or since it has jobs already, or nothing intact
    can be resumed from; 4 no answer.
    """
    loaded = load(config, with_scripts(only=chain)).config if config is not None else None
    where = common.state_directory(state, loaded)
    with common.opened(where, loaded, create=loaded is not None) as store:
        asked = loaded.chains.get(chain) if loaded is not None else None
        if asked is None and loaded is not None and store.chain(chain) is None:
            common.fail(f"{config} has no chain named {chain}: it has {', '.join(loaded.chains) or 'none'}", common.NO)
        known = common.known_chain(store, chain) if asked is None else None  # said before Slurm is asked
        clusters = backends(loaded, store) if loaded is not None else reachable(store)
        record = known if asked is None else registered(store, chain, asked, clusters)
        assert record is not None, "it is known, or registered now"
        if record.released:
            common.fail(
                f"{chain} was taken out of the daemon's configuration: put it back, then `chainwatch reload`",
                common.REFUSED,
            )
        if store.attempts(chain) or record.facts.get("expected"):
            common.fail(f"{chain} has jobs already: `chainwatch retry {chain}` submits the next one", common.REFUSED)
        if (left := _left_over(store, clusters.get(record.cluster), chain)) is not None:
            common.fail(
                f"job {left.shown_id} of a chain {chain} that was forgotten still lives, and two jobs of one run must not "
                f"meet: `scancel {left.shown_id}` ends it; the daemon takes it up where the configuration names {chain}",
                common.REFUSED,
            )
        facts = {**record.facts, "umask": captured_umask()}
        record = store.update_chain(chain, environment=captured_environment(), facts=facts, desired=Desired.RUN)
        record = submit_first(store, where, record, clusters)
        if job_id_of(record) is not None:
            if loaded is not None:
                warn_of_another_state(store, where, Path(loaded.state), chain)
            warn_unattended(store, where, chain)
            if config is not None:
                warn_of_another(store, config, chain)
        _say(record, json, f"{chain}: ", doubtful=bool(store.open_intents(chain)))


def _left_over(store: Store, backend: Backend | None, chain: str) -> Job | None:
    """A live job that this state submitted for a chain of that name, which has none."""

    def left(job: Job) -> bool:
        tag = find(job.comment)
        ours = tag is not None and (tag.instance, tag.chain) == (short_instance(store.instance), chain)
        return ours and not job.state.terminal

    jobs = backend.queue(getpass.getuser()) if backend is not None else ()  # no such cluster: said when it is submitted
    return next((job for job in jobs if left(job)), None)


def _say(record: ChainRecord, json: bool, prefix: str, *, doubtful: bool) -> None:
    job_id = job_id_of(record)
    if json:
        common.print_json(
            {"chain": record.name, "job_id": job_id, "state": str(record.state), "sentence": record.sentence}
        )
    elif job_id is not None:
        typer.echo(f"{prefix}submitted batch job {job_id}")
    if job_id is None:
        if not json:
            print(f"chainwatch: {prefix}{record.sentence}", file=sys.stderr)
        raise typer.Exit(common.SILENT if doubtful else common.REFUSED)
