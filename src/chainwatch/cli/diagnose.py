"""`chainwatch diagnose`: why a job died, from Slurm's facts and its logs, for anybody's job."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainwatch.cli import common
from chainwatch.diagnosis import CAUSES, diagnose
from chainwatch.diagnosis.torn import told_apart
from chainwatch.evidence import LogFile, read_logs
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.model.verdict import Evidence, Line, LogEvidence, Verdict
from chainwatch.signatures import Matcher, SignatureError, builtin_matcher, builtin_signatures, user_signatures

if TYPE_CHECKING:  # for --log alone neither the store nor the readers are needed
    from chainwatch.cli.diagnose_chain import Known

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class UsageError(Exception):
    """What was asked for makes no sense; the message says what to write instead."""


@app.command("diagnose")
def command(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="JOBID|FILE", help="A job id; with --log, further log files.")
    ] = None,
    log: Annotated[
        list[Path] | None, typer.Option("--log", metavar="FILE", help="Diagnose these log files, without asking Slurm.")
    ] = None,
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", help="State as Slurm shows it: FAILED, TIMEOUT, 'CANCELLED by 1001', ..."
        ),
    ] = "",
    exit_code: Annotated[
        str, typer.Option("--exit-code", metavar="C:S", help="ExitCode as Slurm shows it: 1:0, 0:9, ...")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason as Slurm shows it.")] = "",
    nodes: Annotated[str, typer.Option("--nodes", metavar="LIST", help="The job's nodes: n[01-03],gpu7.")] = "",
    signatures: Annotated[
        Path | None, typer.Option("--signatures", metavar="FILE", help="Your own signatures, beside the built-in.")
    ] = None,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Name of the cluster, where it is not this machine's own.")
    ] = "",
    own_state: Annotated[
        Path | None,
        typer.Option(
            "--state-directory",
            metavar="DIR",
            help="What chainwatch remembers of the job's chain is asked there.",
            envvar="CHAINWATCH_STATE",
            show_envvar=False,
        ),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Say why a job ended, what proves it, which node is to blame, and whether the same job again would help.

    Of a job that one of your chains ran, its logs, its checkpoints and what it was judged by are known. Exit codes: 0
    diagnosed; 2 wrong use, or nothing is known of the job; 4 Slurm gave no answer.
    """
    words = list(what or [])
    known: Known | None = None
    try:
        matcher = _matcher(signatures)
        if not log and any((state, exit_code, reason, nodes)):
            raise UsageError("--state, --exit-code, --reason and --nodes go with --log: of a job Slurm tells them")
        if log and cluster:
            raise UsageError("--cluster is for a job id: with --log nothing is asked of Slurm")
        if log:
            evidence = _from_files([*map(str, log), *words], matcher, state, exit_code, reason, nodes)
        elif len(words) == 1:
            evidence, known = _from_slurm(words[0], matcher, cluster, own_state, signatures)
        else:
            raise UsageError("give one job id, or --log with one or more files")
    except (UsageError, SignatureError) as error:
        common.fail(str(error))
    verdict, more, rows = diagnose(evidence), {}, []
    if known is not None:
        from chainwatch.cli import diagnose_chain

        found = known
        verdict = told_apart(verdict, evidence, lambda: found.earlier, lambda a: found.before.get(a.number))
        more, rows = {"chain": diagnose_chain.as_dict(known, evidence)}, diagnose_chain.rows(known, evidence)
    if as_json:
        common.print_json({**as_dict(verdict), **more})
    else:
        print(for_people(verdict, evidence.logs, color=sys.stdout.isatty(), rows=rows))


def run(argv: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code (0 diagnosed, 2 wrong use or nothing known of the job)."""
    return common.guarded(
        lambda: app(args=list(argv), prog_name="chainwatch diagnose", standalone_mode=False), debug=True
    )


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as documented for scripts."""
    return {
        "outcome": verdict.outcome.value,
        "cause": verdict.cause.value,
        "retry": verdict.retry.value,
        "culprit_nodes": list(verdict.culprit_nodes),
        "root_line": verdict.root_line,
        "confidence": verdict.confidence,
        "evidence": [{"source": line.source, "line": line.line, "text": line.text} for line in verdict.evidence],
        "ruled_out": [{"cause": ruled.cause.value, "why": ruled.why} for ruled in verdict.ruled_out],
        "advice": verdict.advice,
    }


_RETRY_WORDS = {
    "yes": "yes: the same job again would help",
    "yes_exclude_node": "yes, without the culprit node",
    "no": "no: it would end the same way",
    "wait": "wait first",
}


def for_people(verdict: Verdict, logs: LogEvidence, *, color: bool = False, rows: Sequence[str] = ()) -> str:
    """The verdict as a page of text, with further `rows` of facts. Control characters of logs are made visible, so that no
    log drives a terminal."""
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if color else ("", "", "")
    page = [
        f"{bold}{_plain(verdict.sentence)}{end}",
        "",
        f"cause       {bold}{verdict.cause.value}{end} ({CAUSES[verdict.cause].name})",
        f"confidence  {verdict.confidence:.0%}",
        f"outcome     {verdict.outcome.value}{' (assumed)' if verdict.assumed else ''}",
        f"retry       {_RETRY_WORDS[verdict.retry.value]}",
    ]
    if verdict.culprit_nodes:
        page.append(f"culprit     {', '.join(verdict.culprit_nodes)}")
    page.append(f"what to do  {verdict.advice}")
    page += map(_plain, rows)
    if verdict.evidence:
        page += ["", "proof"]
        page += [f"  {dim}{_where(line)}{end}  {_plain(line.text)}" for line in verdict.evidence]
    if verdict.ruled_out:
        page += ["", "ruled out"]
        page += [f"  {ruled.cause.value}: {_plain(ruled.why)}" for ruled in verdict.ruled_out]
    if verdict.weaker:
        page += ["", "not known"]
        page += [f"  {_plain(text)}" for text in verdict.weaker]
    if logs.step is not None:
        page += ["", f"progress    step {logs.step}{f' of {logs.total}' if logs.total else ''}"]
    return "\n".join(page)


def _where(line: Line) -> str:
    if line.line is not None:
        return f"{line.source}:{line.line}"
    return f"{line.source}@{line.offset}" if line.offset is not None else line.source


def _plain(text: str) -> str:
    shown = text if len(text) <= 400 else f"{text[:397]}…"
    return "".join(char if char == "\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in shown).strip()


def _matcher(path: Path | None) -> Matcher:
    return builtin_matcher() if path is None else Matcher((*builtin_signatures(), *user_signatures(path)))


def _from_files(
    paths: Sequence[str], matcher: Matcher, state: str, exit_code: str, reason: str, nodes: str
) -> Evidence:
    from chainwatch.slurm import hostlist, sacct, states

    known = states.parse_state(state) if state else states.State(JobState.UNKNOWN, None)
    if state and known.state is JobState.UNKNOWN:
        raise UsageError(
            f"--state {state[:40]!r} is no state that Slurm shows: FAILED, TIMEOUT, 'CANCELLED by 1001', …"
        )
    code: ExitCode | None = None
    if exit_code:
        code = sacct.exit_code(exit_code if ":" in exit_code else f"{exit_code}:0")
        if code is None or code.code > 255 or code.signal > 127:
            raise UsageError(f"--exit-code {exit_code!r} is not like Slurm's `1:0`")
    try:
        names = hostlist.expand(nodes)
    except ValueError as error:
        raise UsageError(f"--nodes: {error}") from None
    job = Job(
        attempt=AttemptId("", 0, datetime.fromtimestamp(0, UTC)),
        shown_id="",
        state=known.state,
        source=Source.ACCOUNTING,
        raw_state=state,
        reason="" if reason == "None" else reason,
        exit=code,
        nodes=names,
        cancelled_by=known.cancelled_by,
    )
    logs = read_logs([LogFile(path) for path in paths], matcher=matcher, nodes=names)
    if not logs.readable and not state:
        raise UsageError(logs.problem)
    return Evidence(job=job, logs=logs)


def _from_slurm(
    text: str, matcher: Matcher, cluster: str, state: Path | None, signatures: Path | None
) -> tuple[Evidence, Known | None]:
    from chainwatch.cli import diagnose_chain
    from chainwatch.cli.diagnose_job import JobFacts, NotFound, facts_of
    from chainwatch.slurm import NoInformation

    facts: JobFacts | None = None
    try:
        facts = facts_of(text, cluster)
    except (NotFound, NoInformation) as error:
        known = diagnose_chain.known(state, text, None, cluster)
        if known is None or (known.evidence is None and isinstance(error, NoInformation)):
            if isinstance(error, NoInformation):
                raise
            raise UsageError(str(error)) from None
    else:
        known = diagnose_chain.known(state, text, facts.job)
    if known is not None:
        return diagnose_chain.evidence_of(known, facts, signatures), known
    assert facts is not None, "Slurm or the chain knows the job"
    job = facts.job
    since = job.start or job.attempt.submitted
    logs = read_logs(
        [LogFile(path) for path in facts.logs],
        matcher=matcher,
        since=since - timedelta(seconds=5) if since else None,
        nodes=job.nodes,
    )
    evidence = Evidence(
        job=replace(job, shown_id=job.shown_id or text),
        sources=facts.sources,
        logs=logs,
        nodes=facts.nodes,
        user_uid=facts.user_uid,
        chain_user=job.user,
    )
    return evidence, None
