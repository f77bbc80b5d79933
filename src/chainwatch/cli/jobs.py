"""`chainwatch submit`, `sbatch` and `adopt`: how a run becomes a chain."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from chainwatch.actions import kept
from chainwatch.actions import options as words
from chainwatch.cli import common
from chainwatch.cli.attended import warn_unattended
from chainwatch.cli.first import captured_environment, captured_umask, submit_first
from chainwatch.config import load
from chainwatch.config.models import Chain, Config, Slurm
from chainwatch.config.values import expand_path
from chainwatch.model.chain import Desired
from chainwatch.model.job import Job
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.slurm.jobids import expand_tasks
from chainwatch.store import ChainExists, Store
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.supervisor.clusters import backends, reachable
from chainwatch.supervisor.configured import taken_up
from chainwatch.supervisor.rules import RULES

_OWN = re.compile(r"#CHAINWATCH\s+(.*)")


def submit(
    chain: common.ChainName,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Configuration that defines the chain, if it is not known yet."),
    ] = None,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Submit the first job of a chain, with the environment of this shell.

    Exit codes: 0 submitted; 1 no such chain; 3 Slurm refused it, or nothing intact can be resumed from; 4 no answer.
    """
    loaded = load(config, RULES).config if config is not None else None
    where = Path(loaded.state) if loaded is not None and state is None else common.state_directory(state)
    with common.opened(where, create=True) as store:
        clusters = backends(loaded, store) if loaded is not None else reachable(store)
        record = store.chain(chain)
        if loaded is not None and chain in loaded.chains:
            record = _registered(store, chain, loaded.chains[chain], clusters)
        elif record is None:
            record = common.known_chain(store, chain)
        if record.released:
            common.fail(
                f"{chain} was taken out of the daemon's configuration: put it back, then `chainwatch reload`",
                common.REFUSED,
            )
        if store.attempts(chain) or record.facts.get("expected"):
            common.fail(f"{chain} has jobs already: `chainwatch retry {chain}` submits the next one", common.REFUSED)
        facts = {**record.facts, "umask": captured_umask()}
        record = store.update_chain(chain, environment=captured_environment(), facts=facts, desired=Desired.RUN)
        record = submit_first(store, where, record, clusters)
        if _job_id(record) is not None:
            warn_unattended(store, where, chain)
        _say(record, json, f"{chain}: ")


def sbatch(context: typer.Context) -> None:
    """Drop-in for sbatch: same options, same output line; registers the job as a chain.

    chainwatch's own options come among sbatch's, or in the script on `#CHAINWATCH` lines: --cw-name, --cw-checkpoints,
    --cw-done-step, --cw-done-mark, --cw-mode, --cw-hand-over. Exit codes as sbatch's (1: refused).
    """
    given = list(context.args)
    if not given or given in (["--help"], ["-h"]):
        typer.echo(context.get_help() if given else "Usage: chainwatch sbatch [sbatch's options] SCRIPT [ARGS]")
        raise typer.Exit(0 if given else common.UNUSABLE)
    try:
        line = words.parse(given)
    except ValueError as e:
        common.fail(str(e))
    where = common.state_directory(
        None if "CHAINWATCH_STATE" not in os.environ else Path(os.environ["CHAINWATCH_STATE"])
    )
    script, text, called = _script(line)
    slurm_options = [o for o in line.options if not o.name.startswith("cw-") and o.name not in {"parsable", "wrap"}]
    in_script = words.script_options(text)
    job_name = words.last(slurm_options, "job-name") or words.last(in_script, "job-name")
    option_words = words.without(slurm_options)
    if script is None:
        script = str(kept.keep(where, called, text.encode(errors="surrogateescape")))
        option_words += () if job_name else (f"--job-name={called}",)
    try:
        own = {o.name: o.value or "" for o in (*_own_lines(text), *line.options) if o.name.startswith("cw-")}
        chain = _chain(own, option_words, script, line.args)
    except ValueError as e:
        common.fail(f"the chainwatch options are wrong: {_first_words(e)}")
    name = own.get("cw-name") or job_name
    array = words.last(slurm_options, "array") or words.last(in_script, "array")
    parsable = words.last(line.options, "parsable") is not None
    with common.opened(where, create=True) as store:
        clusters = backends(Config(state=where), store)
        record = _new(store, _safe(name or called), chain, clusters, Origin.SBATCH, own.get("cw-name"))
        one_chain = array is None or array.endswith("%1")
        if array is not None:
            record = store.update_chain(record.name, facts={**record.facts, "array": {"id": None, "task": None}})
        record = submit_first(store, where, record, clusters)
        job_id = _job_id(record)
        if job_id is None:
            sentence = record.sentence
            if store.open_intents(record.name):
                sentence += f". It is the chain {record.name}: `chainwatch run` finds out; do not submit it again"
            else:
                store.forget_chain(record.name)
            typer.echo(f"sbatch: error: {sentence}", err=True)
            raise typer.Exit(1)
        if array is not None and not one_chain:
            _one_chain_a_task(store, record, array, job_id)
        warn_unattended(store, where, record.name)
    typer.echo(str(job_id) if parsable else f"Submitted batch job {job_id}")


def adopt(
    job_id: Annotated[int, typer.Argument(metavar="JOBID", help="A pending or running job.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the chain [the job's name].")] = None,
    checkpoints: Annotated[str | None, typer.Option("--checkpoints", help="Directory of its checkpoints.")] = None,
    done_step: Annotated[int | None, typer.Option("--done-step", help="Final training step.")] = None,
    done_mark: Annotated[str | None, typer.Option("--done-mark", help="Text in the log that proves the end.")] = None,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Make a job that somebody submitted by hand a chain. It starts in mode observe."""
    where = common.state_directory(state)
    with common.opened(where, create=True) as store:
        clusters = backends(Config(state=where, slurm=Slurm()), store)
        backend = next(iter(clusters.values()))
        job = backend.job(job_id)
        if job is None:
            common.fail(f"Slurm does not know a job {job_id} (any more)", common.NO)
        owner = _owner(store, job)
        if owner is not None:
            common.fail(f"job {job.shown_id} belongs to the chain {owner} already", common.REFUSED)
        if job.state.terminal:
            common.fail(f"job {job_id} is over ({job.state}): `chainwatch diagnose {job_id}` says why", common.NO)
        job = _with_submit_line(backend, job)
        path, option_words, args = _by_hand(backend, where, job)
        own = {"cw-checkpoints": checkpoints, "cw-done-mark": done_mark, "cw-mode": "observe"}
        own["cw-done-step"] = str(done_step) if done_step is not None else None
        try:
            chain = _chain({k: v for k, v in own.items() if v}, option_words, path, args, directory=job.directory)
        except ValueError as e:
            common.fail(f"job {job.shown_id} cannot become a chain: {_first_words(e)}")
        record = _new(store, _safe(name or job.name), chain, clusters, Origin.ADOPTED, name)
        expected = {"job_id": job.job_id, "since": common.now().isoformat(), "token": "", "resume": None}
        record = store.update_chain(record.name, facts={**record.facts, "expected": expected})
        warn_unattended(store, where, record.name)
    on = f"chainwatch mode {record.name} act"
    if json:
        common.print_json({"chain": record.name, "job_id": job.job_id, "mode": "observe", "switch_on": on})
        return
    typer.echo(f"job {job.shown_id} is the chain {record.name} now, in mode observe: {path}")
    if checkpoints is None:
        typer.echo(
            "its checkpoints are not known: give --checkpoints DIR so that damaged ones are told from intact ones"
        )
    typer.echo(f"switch it on with: {on}")


# -- helpers


def _script(line: words.CommandLine) -> tuple[str | None, str, str]:
    """The script's path (None where it is no file), its text, and what Slurm calls its job by itself."""
    wrapped = words.last(line.options, "wrap")
    if wrapped is not None:
        if line.script is not None:
            common.fail("--wrap takes the place of a script: name one or the other", common.NO)
        return None, f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{wrapped}\n", "wrap"
    if line.script is None:
        if sys.stdin.isatty():
            common.fail("name the batch script")
        text = sys.stdin.buffer.read().decode(errors="surrogateescape")
        if not text.startswith("#!"):
            common.fail("this does not look like a batch script: its first line must start with #!", common.NO)
        return None, text, "sbatch"
    path = os.path.abspath(line.script)
    try:
        return path, Path(path).read_text(errors="replace"), Path(path).name
    except OSError as e:
        common.fail(f"{path} cannot be read: {e.strerror}", common.NO)


def _owner(store: Store, job: Job) -> str | None:
    """The chain that has this job already, or is about to meet it."""
    known = store.attempt_by_id(job.attempt)
    if known is not None:
        return known[0]
    ids = {job.job_id, job.array_job_id} - {None}
    return next((c.name for c in store.chains() if c.cluster == job.cluster and _job_id(c) in ids), None)


def _first_words(error: ValueError) -> str:
    """What is wrong, without the rest of a validation's report."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
    return str(error)


def _registered(store: Store, name: str, chain: Chain, clusters: dict[str, Backend]) -> ChainRecord:
    known = store.chain(name)
    settings = chain.model_dump(mode="json")
    if known is not None and known.released:
        return store.update_chain(name, settings=settings, facts=taken_up(known))
    if known is not None:
        return store.update_chain(name, settings=settings)
    record = ChainRecord(
        name=name,
        cluster=chain.cluster or next(iter(clusters)),
        origin=Origin.CONFIG,
        mode=chain.mode,
        settings=settings,
        created=common.now(),
        state_since=common.now(),
        facts={"config_mode": str(chain.mode)},
    )
    store.add_chain(record)
    return record


def _new(
    store: Store, name: str, chain: Chain, clusters: dict[str, Backend], origin: Origin, exact: str | None
) -> ChainRecord:
    """Register a chain under this name, or, unless it was asked for by name, under the next free `name-2`, …"""
    record = ChainRecord(
        name=name,
        cluster=chain.cluster or next(iter(clusters)),
        origin=origin,
        mode=chain.mode,
        settings=chain.model_dump(mode="json"),
        created=common.now(),
        state_since=common.now(),
        environment=captured_environment(),
        facts={"directory": str(chain.directory), "umask": captured_umask()},
    )
    number = 1
    while True:
        try:
            store.add_chain(record)
        except ChainExists:
            if exact is not None:
                common.fail(
                    f"a chain named {exact} exists already: `chainwatch retry {exact}` goes on with it", common.REFUSED
                )
            number += 1
            record = replace(record, name=f"{name[:90]}-{number}")
        else:
            return record


def _safe(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:90]
    return word if word and word[0].isalnum() else f"run-{word}".rstrip("-")


def _own_lines(text: str) -> list[words.Option]:
    import shlex

    found: list[words.Option] = []
    for line in text.splitlines():
        match = _OWN.match(line)
        if match:
            found += words.parse(shlex.split(match[1], comments=True)).options
    return found


def _chain(
    own: dict[str, Any], option_words: Sequence[str], script: str, args: Sequence[str], directory: str | None = None
) -> Chain:
    unknown = set(own) - {"cw-name", "cw-checkpoints", "cw-done-step", "cw-done-mark", "cw-mode", "cw-hand-over"}
    if unknown:
        raise ValueError(f"--{min(unknown)} is not known")
    base = directory or words.last(words.parse(list(option_words)).options, "chdir") or os.getcwd()
    base = os.path.abspath(base)
    settings: dict[str, Any] = {
        "batch": script,
        "args": list(args),
        "sbatch": list(option_words),
        "directory": base,
        "mode": own.get("cw-mode", "act"),
    }
    if "cw-checkpoints" in own:
        where: dict[str, Any] = {"directory": os.path.join(base, expand_path(own["cw-checkpoints"]))}
        if "cw-hand-over" in own:
            where["hand_over"] = own["cw-hand-over"]
        settings["checkpoints"] = where
    rules: dict[str, Any] = {}
    if "cw-done-step" in own:
        rules["step"] = int(own["cw-done-step"])
    if "cw-done-mark" in own:
        rules["mark"] = own["cw-done-mark"]
    if rules:
        settings["done"] = rules
    return Chain.stored(settings)


def _one_chain_a_task(store: Store, record: ChainRecord, array: str, job_id: int) -> None:
    """An array whose tasks are independent runs: one chain for each, in place of the one that was submitted."""
    facts = {k: v for k, v in record.facts.items() if k not in {"array", "expected"}}
    store.forget_chain(record.name)
    for task in expand_tasks(array):
        own = replace(record, name=f"{record.name}.{task}", facts={**facts, "array": {"id": job_id, "task": str(task)}})
        store.add_chain(own)


def _with_submit_line(backend: Backend, job: Job) -> Job:
    """sacct alone knows the submit line; without it the options of the script have to do."""
    try:
        records = backend.accounting([job.job_id])
    except NoInformation:
        return job
    line = next((r.submit_line for r in reversed(records) if r.submit_line), "")
    return replace(job, submit_line=line or job.submit_line)


def _by_hand(backend: Backend, state: Path, job: Job) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Script, sbatch options and arguments of a job that somebody submitted.

    The submit line is joined by blanks without quotes, and accounting may have none before the job starts. So it counts
    only where it names the script that the controller names; otherwise the options are what the controller shows.
    """
    words_ = job.submit_line.split()[1:]
    command = job.command if job.command != "(null)" else ""
    try:
        line = words.parse([w for w in words_ if w != "--parsable"])
    except ValueError:
        line = words.CommandLine((), None, ())
    if command and line.script is not None:
        path = os.path.normpath(os.path.join(job.directory, line.script))
        if " ".join((path, *line.args)) == command.strip() or " ".join((line.script, *line.args)) == command.strip():
            return path, line.option_words, line.args
    path, *args = command.split(" ") if command else ("",)
    if not command or not os.path.isfile(os.path.join(job.directory, path)):
        text = backend.script(job.job_id)
        if text is None:
            common.fail(f"Slurm gives no batch script of job {job.shown_id}: it cannot be submitted again", common.NO)
        path = str(kept.keep(state, _safe(job.name), text))
    typer.echo(
        "its sbatch command line is not known in full: it goes on with the script's own #SBATCH lines and what the "
        "controller shows (once it runs, `chainwatch forget` and `adopt` it again to have every option)",
        err=True,
    )
    listed = next((j for j in backend.queue(job.user or None) if j.attempt == job.attempt), None)
    if listed is not None:  # scontrol fills the patterns of the logs in: the next job would write into this one's
        job = replace(job, stdout=listed.stdout, stderr=listed.stderr)
    return os.path.normpath(os.path.join(job.directory, path)), _shown_options(job), tuple(args)


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


def _job_id(record: ChainRecord) -> int | None:
    expected = record.facts.get("expected")
    return int(expected["job_id"]) if isinstance(expected, dict) else None


def _say(record: ChainRecord, json: bool, prefix: str) -> None:
    job_id = _job_id(record)
    if json:
        common.print_json(
            {"chain": record.name, "job_id": job_id, "state": str(record.state), "sentence": record.sentence}
        )
    elif job_id is not None:
        typer.echo(f"{prefix}submitted batch job {job_id}")
    if job_id is None:
        if not json:
            print(f"chainwatch: {prefix}{record.sentence}", file=sys.stderr)
        raise typer.Exit(common.SILENT if "no answer" in record.sentence else common.REFUSED)


__all__ = ["adopt", "sbatch", "submit"]
