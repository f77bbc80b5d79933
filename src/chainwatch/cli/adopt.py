"""`chainwatch adopt JOBID`: a job that somebody submitted by hand becomes a chain."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions import beforehand, kept
from chainwatch.actions import options as words
from chainwatch.actions.tag import find, short_instance
from chainwatch.cli import common
from chainwatch.cli.attended import warn_of_another, warn_of_another_state, warn_unattended
from chainwatch.cli.first import captured_environment, captured_umask
from chainwatch.cli.registering import (
    chain_of,
    job_id_of,
    new_chain,
    one_chain_a_task,
    proper_name,
    registered,
    safe_name,
)
from chainwatch.cli.words import whole
from chainwatch.config import load
from chainwatch.config.models import Chain, Config, Slurm
from chainwatch.model.chain import Desired
from chainwatch.model.job import Job
from chainwatch.model.plain_file import text_of
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.slurm.jobids import expand_tasks, one_by_one
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.supervisor.arrays import array_of
from chainwatch.supervisor.clusters import backends
from chainwatch.supervisor.rules import RULES

LATE = timedelta(seconds=8)
"""So long after its submission accounting may not know a job's command line yet (seen on 22.05: two seconds)."""
AGAIN = 1.0
"""Seconds between two looks."""


def adopt(
    which: Annotated[str, typer.Argument(metavar="JOBID", help="A pending or running job.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the chain [the job's name].")
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option("--checkpoints", metavar="DIR", help="Directory of its checkpoints.")
    ] = None,
    done_step: Annotated[
        int | None, typer.Option("--done-step", metavar="STEP", parser=whole(1), help="Final training step.")
    ] = None,
    done_mark: Annotated[
        str | None, typer.Option("--done-mark", metavar="PATTERN", help="Text in the log that proves the end.")
    ] = None,
    config: Annotated[
        Path | None,
        common.config_option("Configuration with a chain of that name: the job becomes its first.", envvar=None),
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take a job of another state directory, where that one is gone.")
    ] = False,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Make a job that somebody submitted by hand a chain. It starts in mode observe; where `-c` names its configuration, all
    stands there.

    Exit codes: 1 Slurm does not know the job, or it is over; 2 it cannot become a chain; 3 it belongs to one; 4 no answer.
    """
    job_id = common.job_number(which)
    if name is not None:
        proper_name(name)
    loaded = load(config, RULES).config if config is not None else None
    if loaded is not None and (checkpoints, done_step, done_mark) != (None, None, None):
        common.fail("with -c the checkpoints and what proves the end stand in the configuration")
    where = common.state_directory(state, loaded)
    with common.opened(where, loaded, create=True) as store:
        clusters = backends(loaded or Config(state=where, slurm=Slurm()), store)
        mine = loaded.chains.get(name or "") if loaded is not None else None
        cluster = mine.cluster if mine is not None and mine.cluster else next(iter(clusters))
        if cluster not in clusters:
            common.fail(f"the cluster {cluster} is not configured: there are {', '.join(clusters)}")
        backend = clusters[cluster]
        job = backend.job(job_id)
        if job is None:
            common.fail(f"Slurm does not know a job {job_id} (any more)", common.NO)
        if job.het_job_id not in {None, job.job_id}:  # a het job is one job: its leader stands for it
            job = backend.job(job.het_job_id or job_id) or job
        owner = _owner(store, job)
        if owner is not None:
            common.fail(f"job {job.shown_id} belongs to the chain {owner} already", common.REFUSED)
        tag = find(job.comment)
        if tag is not None and tag.instance != short_instance(store.instance) and not take_over:
            common.fail(
                f"job {job.shown_id} was submitted for the chain {tag.chain} of another state directory, and two would "
                "look after it: forget the chain there; --take-over where that directory is gone",
                common.REFUSED,
            )
        if job.state.terminal:
            common.fail(f"job {job_id} is over ({job.state}): `chainwatch diagnose {job_id}` says why", common.NO)
        if config is not None and loaded is not None:
            _first_of(store, where, config, loaded, name, job, clusters, json)
            return
        job = with_submit_line(backend, job)
        path, option_words, args = _by_hand(backend, where, job)
        own = {"cw-checkpoints": checkpoints, "cw-done-mark": done_mark, "cw-mode": "observe"}
        own["cw-done-step"] = str(done_step) if done_step is not None else None
        try:
            chain = chain_of(
                {k: v for k, v in own.items() if v is not None}, option_words, path, args, directory=job.directory
            )
        except ValueError as e:
            common.fail(f"job {job.shown_id} cannot become a chain: {e}")
        record = new_chain(store, safe_name(name or job.name), chain, clusters, Origin.ADOPTED, name)
        names = _met(store, backend, record, job)
        warn_unattended(store, where, names[0])
    on = f"chainwatch mode {names[0]} act"
    if json:
        more = {"chains": names} if names != [record.name] else {}
        common.print_json({"chain": names[0], **more, "job_id": job.job_id, "mode": "observe", "switch_on": on})
        return
    if len(names) > 1:
        typer.echo(
            f"the tasks of array {job.array_job_id} run side by side, so that each that lives is a chain now, in mode "
            f"observe: {', '.join(names)}: {path}"
        )
    else:
        typer.echo(f"job {job.shown_id} is the chain {names[0]} now, in mode observe: {path}")
    if checkpoints is None:
        typer.echo(
            "its checkpoints are not known: give --checkpoints DIR so that damaged ones are told from intact ones"
        )
    typer.echo(f"switch it on with: {on}")


def _first_of(
    store: Store,
    where: Path,
    path: Path,
    config: Config,
    name: str | None,
    job: Job,
    clusters: dict[str, Backend],
    json: bool,
) -> None:
    """The job becomes the first one of a chain that a configuration describes: it says all but which job that is."""
    chain = name or safe_name(job.name)
    if chain not in config.chains:
        common.fail(
            f"{path} has no chain named {chain}: --name says which of {', '.join(config.chains) or 'none'}", common.NO
        )
    known = store.chain(chain)
    if known is not None and (store.attempts(chain) or known.facts.get("expected")):
        common.fail(
            f"{chain} has jobs already: another one of the same name and directory is adopted without a word of yours, and "
            f"`chainwatch retry {chain}` submits the next",
            common.REFUSED,
        )
    wanted = config.chains[chain].cluster or next(iter(clusters))
    if wanted != job.cluster:
        common.fail(f"{chain} belongs to the cluster {wanted}, and job {job.shown_id} to {job.cluster}")
    backend = clusters[wanted]
    if job.array_job_id is not None and not _one_lane(config.chains[chain], job, backend):
        common.fail(
            f"the tasks of array {job.array_job_id} run side by side, and a chain is one job at a time: without -c "
            "each task becomes a chain"
        )
    record = registered(store, chain, config.chains[chain], clusters)
    facts = {**record.facts, "umask": captured_umask()}
    record = store.update_chain(chain, environment=captured_environment(), facts=facts, desired=Desired.RUN)
    _met(store, backend, record, job)
    warn_of_another_state(store, where, Path(config.state), chain)
    warn_unattended(store, where, chain)
    warn_of_another(store, path, chain)
    if json:
        common.print_json({"chain": chain, "job_id": job.job_id, "mode": str(record.mode)})
        return
    typer.echo(f"job {job.shown_id} is the first of the chain {chain} now, in mode {record.mode}")


def _met(store: Store, backend: Backend, record: ChainRecord, job: Job) -> list[str]:
    """What the daemon meets the job by: its id, or that of its array. The names of the chains: an array whose tasks run
    side by side is one chain a task, as far as they live."""
    if job.array_job_id is not None and not _one_lane(Chain.stored(record.settings), job, backend):
        listed = [j for j in backend.queue(job.user or None) if j.array_job_id == job.array_job_id]
        live = {t for j in listed if not j.state.terminal for t in expand_tasks(j.array_task or "")}
        tasks = sorted(live) or expand_tasks(job.array_task or "")
        return one_chain_a_task(store, replace(record, sentence="adopted"), tasks, job.array_job_id)
    expected = {"job_id": job.job_id, "since": common.now().isoformat(), "token": "", "resume": None}
    facts = {**record.facts, "expected": expected}
    if job.array_job_id is not None:
        facts["array"] = {"id": job.array_job_id, "task": None}
    return [store.update_chain(record.name, facts=facts, sentence=f"job {job.shown_id} was adopted").name]


def _one_lane(settings: Chain, job: Job, backend: Backend) -> bool:
    """The tasks of its array come one after another. The controller tells the limit while tasks wait; the options do
    later."""
    try:
        text = text_of(settings.batch)
    except OSError:  # it lies where this machine does not see it: the controller has a copy
        text = (backend.script(job.job_id) or b"").decode(errors="replace")
    array = beforehand.submitted_with(settings, text, "array")
    return job.array_limit == 1 or (array is not None and one_by_one(array))


def _owner(store: Store, job: Job) -> str | None:
    """The chain that has this job already, or is about to meet it."""
    known = store.attempt_by_id(job.attempt)
    if known is not None:
        return known[0]
    ids = {job.job_id, job.array_job_id} - {None}
    mine = [c for c in store.chains() if c.cluster == job.cluster]
    return next((c.name for c in mine if job_id_of(c) in ids or array_of(c, ())[0] in ids), None)


def with_submit_line(backend: Backend, job: Job) -> Job:
    """sacct alone knows the submit line, and of a new job seconds late; without it the options of the script have to do."""
    while True:
        try:
            records = backend.accounting([job.job_id])
        except NoInformation:
            return job
        line = next((r.submit_line for r in reversed(records) if r.submit_line), "")
        if line or common.now() - job.attempt.submitted > LATE:
            return replace(job, submit_line=line or job.submit_line)
        time.sleep(AGAIN)


def as_typed(job: Job) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Script, sbatch options and arguments of the submit line, where it names the script that the controller names."""
    words_ = job.submit_line.split()[1:]
    command = job.command if job.command != "(null)" else ""
    try:
        line = words.parse([w for w in words_ if w != "--parsable"])
    except ValueError:
        return None
    if not command or line.script is None:
        return None
    path = os.path.normpath(os.path.join(job.directory, line.script))
    if command.strip() not in {" ".join((path, *line.args)), " ".join((line.script, *line.args))}:
        return None
    return path, line.option_words, line.args


def _by_hand(backend: Backend, state: Path, job: Job) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Script, sbatch options and arguments of a job that somebody submitted.

    The submit line is joined by blanks without quotes, and accounting may have none before the job starts. So it counts
    only where it names the script that the controller names; otherwise the options are what the controller shows.
    """
    command = job.command if job.command != "(null)" else ""
    if (typed := as_typed(job)) is not None:
        return typed
    path, *args = command.split(" ") if command else ("",)
    if not command or not os.path.isfile(os.path.join(job.directory, path)):
        text = backend.script(job.job_id)
        if text is None:
            common.fail(f"Slurm gives no batch script of job {job.shown_id}: it cannot be submitted again", common.NO)
        path = str(kept.keep(state, safe_name(job.name), text))
    _one_component(backend, job)
    typer.echo(
        "its sbatch command line is not known in full: it goes on with the script's own #SBATCH lines and what the "
        "controller shows (once it runs, `chainwatch forget` and `adopt` it again to have every option)",
        err=True,
    )
    listed = next((j for j in backend.queue(job.user or None) if j.attempt == job.attempt), None)
    if listed is not None:  # scontrol fills the patterns of the logs in: the next job would write into this one's
        job = replace(job, stdout=listed.stdout, stderr=listed.stderr)
    return os.path.normpath(os.path.join(job.directory, path)), _shown_options(job), tuple(args)


def _one_component(backend: Backend, job: Job) -> None:
    """Without its command line a het job could only be submitted again in full where its script names the components."""
    if job.het_job_id is not None and not words.is_het((backend.script(job.job_id) or b"").decode(errors="replace")):
        common.fail(
            f"job {job.shown_id} has several components, and its sbatch command line is not known in full: it could not be "
            "submitted again as it was. Once it runs, `adopt` it again, or describe it in a configuration",
            common.UNUSABLE,
        )


def _shown_options(job: Job) -> tuple[str, ...]:
    """What the controller shows of a job, as sbatch options."""
    minutes = int(job.time_limit.total_seconds() // 60) if job.time_limit is not None else None
    given = {
        "job-name": job.name,
        "partition": job.partition,
        "qos": job.qos,
        "account": job.account,
        "time": str(minutes) if minutes else "",
        "output": job.stdout,
        "error": job.stderr,
    }
    return tuple(f"--{option}={value}" for option, value in given.items() if value)
