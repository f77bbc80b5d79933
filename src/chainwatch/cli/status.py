"""`chainwatch status`, `history` and `explain`: what is, what was, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from chainwatch.cli import common, tables
from chainwatch.cli.attended import daemon_line
from chainwatch.model.chain import Attempt, ChainState, Desired, Mode, living
from chainwatch.model.durations import span
from chainwatch.model.text import last_part
from chainwatch.reports import changed, last_that_progressed, variables
from chainwatch.store import Store
from chainwatch.store.records import CONFIGURATION, ChainRecord
from chainwatch.store.standing import standing

_STYLES = {
    "running": "green",
    "done": "bold green",
    "pending": "cyan",
    "waiting": "yellow",
    "recovering": "yellow",
    "resting": "bold red",
    "stopped": "bold red",
    "paused": "magenta",
}


_GIVE_WAY = ("left", "at risk", "attempts", "since", "saved", "last end", "job")
"""Columns that a narrow terminal does without, the first one first."""


def status(json: common.Json = False, state: common.State = None) -> None:
    """All chains: state, job, step, last verdict, since when; `explain` and --json say all of it.

    Exit code 1: there is none.
    """
    with common.opened(state) as store:
        chains = store.chains()
        configuration = store.recall(CONFIGURATION)
        rows = [_row(store, c, configuration) for c in chains]
        daemon = daemon_line(store, common.now())
        if configuration:
            daemon += f"; this state's configuration is {configuration}"
    if json:
        common.print_json(rows)
    elif rows:
        tables.show(
            ["chain", "state", "since", "job", "step", "saved", "at risk", "left", "attempts", "last end", "now"],
            [
                [r["chain"], r["shown"], common.ago(c.state_since), r["job"] or "-", _step(c), _or_dash(c.saved_step),
                 _at_risk(r), _left(r), str(r["attempts"]), r["last_cause"] or "-", _now(c)]
                for r, c in zip(rows, chains, strict=True)
            ],
            _STYLES,
            _GIVE_WAY,
        )  # fmt: skip
        typer.echo(daemon, err=True)
    else:
        typer.echo("no chains yet: `chainwatch submit`, `sbatch` or `adopt` makes one", err=True)
    if not rows:
        raise typer.Exit(common.NO)


def _now(c: ChainRecord) -> str:
    until = c.wait_until if c.state is ChainState.WAITING else None
    said = tables.short(c.sentence)
    return said + (f" (until {until:%H:%M} UTC)" if until and until > common.now() and " until " not in said else "")


def history(chain: common.ChainName, json: common.Json = False, state: common.State = None) -> None:
    """All attempts of a chain, and how each ended; `explain` and --json say all of it. Exit code 1: no such chain."""
    with common.opened(state) as store:
        common.known_chain(store, chain)
        attempts = store.attempts(chain)
        decisions = store.decisions(chain)
    if json:
        said = [{"at": at, "attempt": number, "sentence": sentence} for at, number, _, sentence in decisions]
        common.print_json({"chain": chain, "attempts": [as_dict(a) for a in attempts], "decisions": said})
        return
    tables.show(COLUMNS, [row(a) for a in attempts], optional=["ended", "from", "saved", "started", "state"])


def explain(
    chain: common.ChainName,
    number: common.AttemptNumber = None,
    attempt: common.AttemptOption = None,
    json: common.Json = False,
    state: common.State = None,
) -> None:
    """Evidence, verdict, ruled-out readings and decision of one attempt, the last unless another is named.

    Exit code 1: there is no such chain or attempt.
    """
    attempt = common.one_attempt(number, attempt)
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        attempts = store.attempts(chain)
        chosen = next((a for a in reversed(attempts) if attempt is None or a.number == attempt), None)
        if chosen is None:
            common.fail(f"{chain} has no attempt {attempt if attempt is not None else 'yet'}", common.NO)
        evidence = store.evidence(chain, chosen.number)
        said = [(at, sentence) for at, number, _, sentence in store.decisions(chain) if number == chosen.number]
    progressed = last_that_progressed(attempts, chosen)
    differences = changed(progressed, chosen)
    if json:
        common.print_json(
            {
                "chain": chain, "attempt": as_dict(chosen), "verdict": chosen.verdict, "evidence": evidence,
                "decisions": [{"at": at, "sentence": s} for at, s in said], "changed": differences,
                "variables": {which: sorted(names) for which, names in variables(progressed, chosen).items()},
            }
        )  # fmt: skip
        return
    typer.echo(f"{chain}, attempt {chosen.number}: job {chosen.job.shown_id} on {', '.join(chosen.job.nodes) or '-'}")
    verdict = chosen.verdict
    if verdict is None:
        typer.echo(f"  not over or not judged yet: {record.sentence}")
        from chainwatch.supervisor.probing import FACT, Book  # `status` has no use for all that comes with it

        for finding in Book.of(record.facts.get(FACT), str(chosen.job.attempt)).findings:
            typer.echo(f"  looked  {finding.at:%H:%M:%S} UTC: {finding.sentence}")
        for at, sentence in said:
            typer.echo(f"  {at:%H:%M:%S}  {sentence}")
        return
    typer.echo(f"  what    {verdict.sentence}")
    typer.echo(
        f"  cause   {verdict.cause} ({verdict.outcome}, confidence {verdict.confidence:.0%}); retry: {verdict.retry}"
    )
    if verdict.root_line:
        typer.echo(f"  line    {verdict.root_line}")
    for line in verdict.evidence:
        where = line.source if line.line is None else f"{line.source}:{line.line}"
        typer.echo(f"  proof   {where}: {line.text}")
    for ruled in verdict.ruled_out:
        typer.echo(f"  not     {ruled.cause}: {ruled.why}")
    for gap in verdict.weaker:
        typer.echo(f"  weaker  {gap}")
    for difference in differences:
        typer.echo(f"  changed {difference}")
    if verdict.advice:
        typer.echo(f"  advice  {verdict.advice}")
    for at, sentence in said:
        typer.echo(f"  {at:%H:%M:%S}  {sentence}")


COLUMNS = ["#", "job", "started", "ended", "state", "cause", "from", "step", "saved", "why"]


def row(a: Attempt) -> list[str]:
    """One attempt as a row under `COLUMNS`."""
    verdict = a.verdict
    return [
        str(a.number),
        a.job.shown_id,
        f"{a.job.start:%m-%d %H:%M:%S}" if a.job.start else "-",
        f"{a.ended:%m-%d %H:%M:%S}" if a.ended else "-",
        a.job.raw_state or str(a.job.state),
        str(verdict.cause) if verdict else "-",
        last_part(a.resumed_from) if a.resumed_from else "-",
        _or_dash(a.step_after),
        _or_dash(a.saved_after),
        tables.short(verdict.sentence) if verdict else "",
    ]


def as_dict(a: Attempt) -> dict[str, Any]:
    """One attempt for scripts."""
    verdict = a.verdict
    return {
        "number": a.number,
        "job_id": a.job.job_id,
        "job": a.job.shown_id,
        "submitted": a.job.attempt.submitted,
        "started": a.job.start,
        "ended": a.ended,
        "state": str(a.job.state),
        "exit_code": str(a.job.exit) if a.job.exit else None,
        "nodes": a.job.nodes,
        "ours": a.ours,
        "outcome": str(verdict.outcome) if verdict else None,
        "cause": str(verdict.cause) if verdict else None,
        "sentence": verdict.sentence if verdict else None,
        "resumed_from": a.resumed_from,
        "step": a.step_after,
        "saved_step": a.saved_after,
        "script_digest": a.script_digest or None,
        "commit": a.commit or None,
        "image": a.image or None,
    }


def _row(store: Store, c: ChainRecord, configuration: object = None) -> dict[str, Any]:
    attempts = store.attempts(c.name)
    live = living(attempts)
    verdict = next((a.verdict for a in reversed(attempts) if a.verdict is not None), None)
    recovery = c.settings.get("recovery")
    off = isinstance(recovery, dict) and not recovery.get("enabled", True)
    shown = str(c.state)
    if c.desired is Desired.PAUSE and c.state is not ChainState.PAUSED:
        shown += " (pause)"
    if c.released:
        shown += " (left alone)"
    elif c.configuration is not None and configuration not in {None, c.configuration}:
        shown += " (other configuration)"
    if c.mode is Mode.OBSERVE:
        shown += " (observe)"
    if off:
        shown += " (recovery off)"
    return {
        "chain": c.name,
        "state": str(c.state),
        "shown": shown,
        "mode": str(c.mode),
        "recovery": not off,
        "desired": str(c.desired),
        "released": c.released,
        "configuration": c.configuration,
        "since": c.state_since,
        "wait_until": c.wait_until,
        "cluster": c.cluster,
        "job": live.job.shown_id if live is not None else c.job_ahead,
        "step": c.step,
        "saved_step": c.saved_step,
        "target": c.target,
        **_standing(c),
        "attempts": len(attempts),
        "last_outcome": str(verdict.outcome) if verdict else None,
        "last_cause": str(verdict.cause) if verdict else None,
        "sentence": c.sentence,
    }


def _standing(c: ChainRecord) -> dict[str, Any]:
    """Rate, time left, work at risk: the keys that the API has too."""
    return asdict(standing(c, common.now()))


def _left(r: dict[str, Any]) -> str:
    """Time left: at the present rate, else at the pace of the last days."""
    seconds = r["eta_seconds"] if r["eta_seconds"] is not None else r["eta_overall_seconds"]
    return span(seconds) or "-"


def _at_risk(r: dict[str, Any]) -> str:
    if r["at_risk_steps"] is None:
        return "-"
    took = r["at_risk_seconds"]
    return f"{r['at_risk_steps']}" + (f" ({span(took)})" if took else "")


def _step(c: ChainRecord) -> str:
    if c.step is None:
        return "-"
    return str(c.step) if c.target is None else f"{c.step}/{c.target}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
