"""`chainwatch sbatch`: a drop-in that registers the job as a chain."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from chainwatch.actions import kept
from chainwatch.actions import options as words
from chainwatch.cli import common
from chainwatch.cli.attended import warn_unattended
from chainwatch.cli.first import submit_first
from chainwatch.cli.registering import chain_of, job_id_of, new_chain, one_chain_a_task, proper_name, safe_name
from chainwatch.config.models import Config
from chainwatch.model.plain_file import text_of
from chainwatch.slurm.jobids import expand_tasks, one_by_one
from chainwatch.store.records import IntentStatus, Origin
from chainwatch.supervisor.clusters import backends

_SUBMITS_NOTHING = {"test-only", "usage", "version", "V", "help", "h"}
_OWN = re.compile(r"#CHAINWATCH\s+(.*)")


def sbatch(context: typer.Context) -> None:
    """Drop-in for sbatch: same options, same output line; registers the job as a chain.

    chainwatch's own options come among sbatch's, or in the script on `#CHAINWATCH` lines: --cw-name, --cw-checkpoints,
    --cw-done-step, --cw-done-mark, --cw-mode, --cw-hand-over. Exit codes as sbatch's (1: refused).
    """
    given = list(context.args)
    if given in (["--help"], ["-h"]):
        typer.echo(context.get_help())
        return
    try:
        line = words.parse(given)
    except ValueError as e:
        common.fail(str(e))
    asked_of_sbatch = {o.name for o in line.options}
    if asked_of_sbatch & _SUBMITS_NOTHING:
        raise typer.Exit(_sbatch_itself(given))
    if "wait" in asked_of_sbatch:
        common.fail(
            "--wait has no end to wait for: a chain goes on after its job. Leave it away; `chainwatch status` says when the "
            "chain is done",
            common.NO,
        )
    named = os.environ.get("CHAINWATCH_STATE")
    where = common.state_directory(Path(named) if named else None)
    script, text, called = _script(line)
    slurm_options = [
        o for o in line.options if not o.name.startswith("cw-") and o.name not in {"parsable", "quiet", "wrap"}
    ]
    in_script = words.script_options(text)
    job_name = words.last(slurm_options, "job-name") or words.last(in_script, "job-name")
    option_words = words.without(slurm_options)
    if script is None:
        script = str(kept.keep(where, called, text.encode(errors="surrogateescape")))
        option_words = option_words if job_name else words.leading(option_words, f"--job-name={called}")
    try:
        own = {o.name: o.value or "" for o in (*_own_lines(text), *line.options) if o.name.startswith("cw-")}
        chain = chain_of(own, option_words, script, line.args)
    except ValueError as e:
        common.fail(f"the chainwatch options are wrong: {e}")
    asked = own.get("cw-name")
    name = job_name if asked is None else proper_name(asked)
    array = words.last(slurm_options, "array") or words.last(in_script, "array")
    parsable = words.last(line.options, "parsable") is not None
    with common.opened(where, create=True) as store:
        clusters = backends(Config(state=where), store)
        record = new_chain(store, safe_name(name or called), chain, clusters, Origin.SBATCH, asked)
        if array is not None:
            record = store.update_chain(record.name, facts={**record.facts, "array": {"id": None, "task": None}})
        record = submit_first(store, where, record, clusters)
        job_id = job_id_of(record)
        if job_id is None:
            sentence = record.sentence
            if store.open_intents(record.name):
                sentence += f". It is the chain {record.name}: `chainwatch run` finds out; do not submit it again"
            else:
                refused = [i.note for i in store.intents(record.name) if i.status is IntentStatus.REFUSED]
                if refused:  # the sentence's advice is for a chain that stays
                    said = refused[-1].removeprefix("sbatch was refused: ")
                    sentence = f"{said} (nothing was submitted: mend it, and submit again)"
                store.forget_chain(record.name)
            typer.echo(f"sbatch: error: {sentence}", err=True)
            raise typer.Exit(1)
        name = record.name
        if array is not None and not one_by_one(array):
            name, *_ = one_chain_a_task(store, record, expand_tasks(array), job_id)
        warn_unattended(store, where, name)
    if "quiet" not in asked_of_sbatch:
        typer.echo(str(job_id) if parsable else f"Submitted batch job {job_id}")


def _sbatch_itself(given: Sequence[str]) -> int:
    """Where nothing is submitted there is nothing to register: sbatch answers for itself. Its exit code."""
    try:
        return subprocess.run(["sbatch", *(w for w in given if not w.startswith("--cw-"))]).returncode
    except OSError as e:
        common.fail(f"sbatch cannot be run: {e.strerror}", common.NO)


def _script(line: words.CommandLine) -> tuple[str | None, str, str]:
    """The script's path (None where it is no file), its text, and what Slurm calls its job by itself."""
    wrapped = words.last(line.options, "wrap")
    if wrapped is not None:
        if line.script is not None:
            common.fail("--wrap takes the place of a script: name one or the other", common.NO)
        return None, f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{wrapped}\n", "wrap"
    if line.script is None:
        if sys.stdin.isatty():
            common.fail("name the batch script, or give it on standard input (see chainwatch sbatch --help)")
        text = sys.stdin.buffer.read().decode(errors="surrogateescape")
        if not text.startswith("#!"):
            common.fail("this does not look like a batch script: its first line must start with #!", common.NO)
        return None, text, "sbatch"
    path = os.path.abspath(line.script)
    try:
        return path, text_of(path), Path(path).name
    except OSError as e:
        common.fail(f"{path} cannot be read: {e.strerror}", common.NO)


def _own_lines(text: str) -> list[words.Option]:
    import shlex

    found: list[words.Option] = []
    for line in text.splitlines():
        match = _OWN.match(line)
        if match:
            found += words.parse(shlex.split(match[1], comments=True)).options
    return found
