"""All commands but those that start light (`latest`, `verify`, `exec`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from chainwatch import __version__
from chainwatch.cli import alert, common, files, jobs, status, wishes
from chainwatch.cli.check import check
from chainwatch.cli.diagnose import command as diagnose
from chainwatch.cli.doctor import doctor
from chainwatch.cli.init import init
from chainwatch.cli.install_service import install_service
from chainwatch.cli.job_side import job_side
from chainwatch.cli.lint import lint
from chainwatch.cli.logs import logs
from chainwatch.cli.metrics import metrics
from chainwatch.cli.reload import reload
from chainwatch.cli.run import run
from chainwatch.cli.runbook import runbook
from chainwatch.cli.web import web

app = typer.Typer(
    name="chainwatch",
    help="Keeps long training runs on Slurm alive.\n\nExit codes: 0 done; 1 the answer is no; 2 usage, configuration or "
    "state cannot be used; 3 refused; 4 no answer from Slurm or the storage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"chainwatch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
) -> None:
    del version, debug


_LOOK, _WANT, _START, _KEEP = "Look", "Want", "Start", "Keep"
for command, panel in (
    (run, _START), (check, _START), (jobs.submit, _START), (jobs.adopt, _START), (init, _START), (lint, _START),
    (install_service, _START), (doctor, _START), (reload, _START), (job_side, _START),
    (status.status, _LOOK), (status.history, _LOOK), (status.explain, _LOOK), (logs, _LOOK),
    (diagnose, _LOOK), (files.nodes, _LOOK), (metrics, _LOOK), (web, _LOOK), (runbook, _LOOK),
    (wishes.pause, _WANT), (wishes.resume, _WANT), (wishes.stop, _WANT), (wishes.retry, _WANT), (wishes.done, _WANT),
    (wishes.mode, _WANT), (wishes.forget, _WANT),
    (files.quarantine, _KEEP), (files.restore, _KEEP), (files.backup, _KEEP),
):  # fmt: skip
    named = "diagnose" if command is diagnose else command.__name__.replace("_", "-")
    app.command(named, rich_help_panel=panel)(command)
app.add_typer(alert.app, name="alert", rich_help_panel=_LOOK)
app.command(
    "sbatch",
    rich_help_panel=_START,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)(jobs.sbatch)


def _light(name: str, help_text: str, panel: str = _LOOK) -> None:
    def named(context: typer.Context) -> None:
        from chainwatch.cli.__main__ import main as light

        sys.argv = [sys.argv[0], name, *context.args]
        raise typer.Exit(light())

    named.__doc__ = help_text
    app.command(
        name,
        rich_help_panel=panel,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    )(named)


_light("latest", "Print the newest intact checkpoint of a run directory, for use in a batch script.")
_light("verify", "Judge a checkpoint, or every checkpoint of a run directory.")
_light("exec", "Run a command inside a job: checkpoint picked, signals passed on, an end record left behind.", _START)


def main(arguments: Sequence[str]) -> int:
    """Run one of the other commands; its exit code."""
    return common.guarded(lambda: app(list(arguments), prog_name="chainwatch"), debug="--debug" in arguments)
