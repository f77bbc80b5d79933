"""`chainwatch init`: a first configuration, from a script or a running job."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from chainwatch.actions import options as words
from chainwatch.cli import common
from chainwatch.cli.adopt import as_typed, with_submit_line
from chainwatch.config import Config
from chainwatch.doctor.begin import Begin, from_job, from_script, render
from chainwatch.model.job import Job
from chainwatch.model.plain_file import text_of
from chainwatch.slurm import NoInformation
from chainwatch.supervisor.clusters import backends

DEFAULT = Path("~/.config/chainwatch/chainwatch.yaml")


def init(
    source: Annotated[
        str | None, typer.Argument(metavar="SCRIPT|JOBID", help="A batch script, or the id of a running job.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - prints it.")
    ] = DEFAULT,
    json: common.Json = False,
) -> None:
    """Write a commented configuration that `chainwatch check` accepts.

    Exit codes: 0 it is written; 1 there is one already, or Slurm does not know the job; 2 the script cannot be read, or the
    file not be written; 4 Slurm gave no answer.
    """
    if source is None:
        source = typer.prompt("Batch script, or id of a running job")
    job = common.job_number(source) if source.isdigit() else None
    begin = _of_job(job) if job is not None else _of_script(Path(source).expanduser())
    target = output.expanduser()
    if begin.directory is None and (str(output) == "-" or target.parent.resolve() != Path.cwd()):
        begin = replace(begin, directory=Path.cwd())  # where sbatch would have been typed
    file = shlex.quote(str(target))
    text = render(begin, "" if str(output) == "-" or target == DEFAULT.expanduser() else " ".join(file.split()))
    told = {"chain": begin.name, "mode": begin.mode, "written": None, "configuration": text}
    if str(output) == "-":
        if json:
            common.print_json(told)
        else:
            typer.echo(text, nl=False)
        return
    if target.is_dir():
        common.fail(f"{target} is a directory: name a file in it (a configuration may be a directory of files)")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:  # a FileExistsError, too: there is a file where its directory should be
        common.fail(f"cannot make the directory {target.parent}: {error.strerror}")
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        common.fail(
            f"{target} is there already: add the chain by hand (--output - prints it), or name another --output",
            common.NO,
        )
    except OSError as error:
        common.fail(f"cannot write {target}: {error.strerror}")
    with os.fdopen(handle, "w") as out:
        out.write(text)
    if json:
        common.print_json({**told, "written": str(target.absolute())})
        return
    typer.echo(f"wrote {target}; look through it, then: chainwatch check {file}")
    if job is not None:
        typer.echo(f"that job as its first: chainwatch adopt {job} --name {begin.name} -c {file}")
    if begin.mode == "act":
        typer.echo(f"the first job: chainwatch submit {begin.name} -c {file}; the daemon: chainwatch run {file}")


def _of_script(path: Path) -> Begin:
    try:
        return from_script(path.resolve(), text_of(path))
    except OSError as error:
        common.fail(f"cannot read {path}: {error.strerror}")


def _of_job(number: int) -> Begin:
    try:
        backend = next(iter(backends(Config()).values()))
        job = backend.job(number)
        if job is None:
            common.fail(f"Slurm does not know job {number} any more; name its batch script instead", common.NO)
        job = with_submit_line(backend, job)
        text = (backend.script(number) or b"").decode("utf-8", "replace")
    except NoInformation as error:
        common.fail(f"Slurm does not answer: {error}", common.SILENT)
    return replace(from_job(job, text), sbatch=_lasting(job))


def _lasting(job: Job) -> tuple[str, ...]:
    """The options that were typed with that job and hold for every job of its chain."""
    typed = as_typed(job)
    if typed is None:
        return ()
    return words.without(words.parse(list(typed[1])).options, "begin", "chdir", "dependency", "hold", "parsable")
