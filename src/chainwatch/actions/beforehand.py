"""What can be told of a chain's jobs before one is submitted, from its settings and its script."""

from __future__ import annotations

from collections.abc import Sequence

from chainwatch.actions import options
from chainwatch.config.models import Chain
from chainwatch.slurm.jobids import side_by_side


def submitted_with(settings: Chain, script_text: str, name: str, extra: Sequence[str] = ()) -> str | None:
    """The value of this option that will count: the command line's before the script's. None: it is not given.

    Options that cannot be taken apart are left to sbatch to complain about.
    """
    try:
        given = options.parse([*settings.sbatch, *extra]).options
    except ValueError:
        given = ()
    on_line = options.last(given, name)
    return on_line if on_line is not None else options.last(options.script_options(script_text), name)


def parallel(array: str | None) -> str:
    """Why an array is no chain, for people; empty where its tasks come one after another, or there is no array."""
    if array is None or (many := side_by_side(array)) < 2:
        return ""
    return (
        f"--array={array} runs {many} tasks side by side, and a chain is one job at a time: add %1, and its tasks are the "
        "chain's attempts; or make each task a chain (`each: {matrix: {task: [0, 1]}}` with `sbatch: --array={task}`)"
    )
