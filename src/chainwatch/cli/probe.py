"""`chainwatch probe CHAIN`: look at the processes of its running job now, and say which rank or node differs."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta

import typer

from chainwatch.actions.audit import Audit
from chainwatch.cli import common, tables
from chainwatch.diagnosis.probe import judge
from chainwatch.model.chain import living
from chainwatch.model.job import Job, JobState
from chainwatch.model.probe import ProbeReport
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.clusters import reach
from chainwatch.supervisor.probes import look_inside
from chainwatch.supervisor.probing import FACT, MOST_AN_HOUR, Book


def probe(
    chain: common.ChainName,
    stacks: bool = typer.Option(False, "--stacks", help="Show what py-spy sees of each rank, too."),
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Look at the running job's processes, by a short step on its nodes.

    Exit codes: 1 no such chain, or no job of it runs; 3 it was looked at too often within an hour; 4 Slurm gave no answer.
    """
    where = common.state_directory(state)
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        backend = reach(record.cluster, store)
        job = _running(record, store, backend)
        _count(record, store, job)
        Audit(where).note(common.now(), "probe", record.name, job=job.job_id, by="command")
    report = look_inside(backend, job, stacks)
    finding = judge(report, common.now())
    if json:
        common.print_json({"chain": chain, "job": job.shown_id, "finding": asdict(finding), "report": asdict(report)})
        return
    _show(report)
    typer.echo(finding.sentence)
    for rank, text in sorted(report.stacks.items()):
        typer.echo(f"\n──── rank {rank} ────\n{text.rstrip()}")


def _running(record: ChainRecord, store: Store, backend: Backend) -> Job:
    """The job as the controller has it now."""
    last = living(store.attempts(record.name))
    job = backend.job(last.job.job_id) if last else None
    if last is None or job is None or job.state is not JobState.RUNNING:
        common.fail(f"no job of {record.name} runs: {record.sentence or record.state}", common.NO)
    return replace(last.job, state=job.state, nodes=job.nodes or last.job.nodes)


def _count(record: ChainRecord, store: Store, job: Job) -> None:
    """Probes of people count, too: each leaves a step in accounting."""
    now = common.now()
    with store.transaction():
        facts = common.known_chain(store, record.name).facts
        book = Book.of(facts.get(FACT), str(job.attempt))
        begun = [each for each in book.begun if now - each < timedelta(hours=1)]
        if len(begun) >= MOST_AN_HOUR:
            again = begun[-MOST_AN_HOUR] + timedelta(hours=1)
            common.fail(
                f"job {job.shown_id} was looked at {MOST_AN_HOUR} times within an hour; again from {again:%H:%M} UTC on",
                common.REFUSED,
            )
        counted = replace(book, begun=(*book.begun, now)[-MOST_AN_HOUR:])
        store.update_chain(record.name, facts={**facts, FACT: counted.as_dict()})


def _show(report: ProbeReport) -> None:
    rows = [
        [
            look.node,
            str(rank.number),
            str(rank.state),
            f"{rank.cpu:.0%}",
            f"{rank.moved >> 10} KiB",
            rank.name,
            str(rank.pid),
        ]
        for look in report.nodes
        for rank in look.ranks
    ]
    if rows:
        tables.show(["node", "rank", "state", "core", "moved", "program", "pid"], rows)
    for look in report.nodes:
        use = ", ".join(f"{gpu.index}: {'?' if gpu.use is None else gpu.use} %" for gpu in look.gpus)
        for text in (f"GPUs {use}" if use else "", look.gpu_problem, *(f.text for f in look.faults), look.problem):
            if text:
                typer.echo(f"{look.node}: {text}")
    if report.silent:
        typer.echo(f"no answer from {', '.join(report.silent)}")
