"""`chainwatch verify PATH`: the verdict on a checkpoint, or on every checkpoint of a run directory."""

from __future__ import annotations

import os
import sys

from chainwatch.checkpoints.files.base import printable
from chainwatch.cli.light import (
    DEFAULT_STATE,
    FLAGS,
    USAGE,
    VALUES,
    Arguments,
    Usage,
    document,
    error_text,
    exit_code,
    judging_command,
    print_json,
    rule_of,
    say,
    say_unknown,
    seconds,
    waits,
)
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

    from chainwatch.checkpoints.nan import TensorCount

HELP = f"""\
usage: chainwatch verify PATH [--deep] [--nan] [--seal] [--format NAME | --rule FILE] [--json] [more options]

Judges the checkpoint at PATH, or every checkpoint under that run directory: intact, damaged, incomplete or in progress.

Exit codes: 0 intact (for a run directory: an intact one exists); 1 no checkpoint there; 3 there are, none intact (yet: one
in progress is not intact), or files look like saves of no known format; 2 usage, or PATH cannot be read or sealed.
  --deep             read all bytes and verify every checksum that the format has, and the seal, where there is one
  --nan              read all tensors and count NaN and infinite values in each; the verdict stays as it is
  --seal             keep digests of the intact checkpoints, so that later rot shows in formats without a checksum
  --keep N           seal the newest N intact ones of a run directory (default 2)
  --rate MB          seal with at most so many megabytes per second (default: as idle priority allows)
  --state DIR        where seals are kept (default $CHAINWATCH_STATE, else {DEFAULT_STATE})
  --format NAME      judge only checkpoints of that format (default: found by itself)
  --rule FILE        YAML or JSON of your own rule for checkpoints of no known format (which files must exist)
  --json             the answer as JSON
  --settle SECONDS   an unfinished checkpoint that changed within this time is in progress, and judged when nothing has
                     changed for so long (default 300; 0 judges it now)
  --patience SECONDS storage that stands still this long is given up, exit code 2 (default 60; 0: wait for ever)
"""

COLOURS = {Status.INTACT: "32", Status.DAMAGED: "31", Status.INCOMPLETE: "33", Status.IN_PROGRESS: "36"}
SHOWN = 20
"""Problems, warnings, tensors of one checkpoint that are printed; JSON has all."""


def main(arguments: List[str]) -> int:
    """Run the command; returns the exit code."""
    flags = FLAGS | {"--nan", "--seal"}
    return judging_command(arguments, HELP, _verify, flags, VALUES | {"--keep", "--rate", "--state"})


def _verify(path: str, given: Arguments) -> int:
    from chainwatch.checkpoints.verify import SETTLE, verify

    rule = rule_of(given.values)
    keep, rate = _number(given, "--keep", 2.0), _number(given, "--rate", 0.0)
    if "--seal" not in given.flags and given.values.keys() & {"--keep", "--rate"}:
        raise Usage("--keep and --rate are for --seal")
    if keep != int(keep):
        raise Usage(f"--keep takes a whole number, not {given.values['--keep']!r}")
    passes = len(given.flags & {"--deep", "--nan", "--seal"})
    progress, cleared = _progress(path, passes)
    state = _state(given)
    sealed: Dict[str, str] = {}
    counts: Dict[str, List[TensorCount]] = {}
    try:
        report = verify(
            path,
            "--deep" in given.flags,
            given.values.get("--format") if rule is None else "custom",
            settle=seconds(given.values, "--settle", SETTLE),
            progress=progress,
            custom=rule,
        )
        if "--deep" in given.flags and os.path.isdir(os.path.join(state, "seals")):
            from chainwatch.checkpoints.seal import apply_seals

            report = apply_seals(report, state, True, progress)
        if "--nan" in given.flags:
            from chainwatch.checkpoints.nan import count_nans

            counts = {each.path: list(count_nans(each.path, progress)) for each in report.checkpoints}
        if "--seal" in given.flags:
            sealed = _seal(report, state, int(keep), rate, progress)
    except OSError as error:
        say(error_text(error, path))
        return USAGE
    finally:
        cleared()
    if "--json" in given.flags:
        print_json(_document(report, counts, sealed, given))
    else:
        _print(report, counts, sealed)
    if report.unknown:
        say_unknown(path, report.unknown)
    return USAGE if any(sealed.values()) else exit_code(report)


def _progress(path: str, passes: int) -> Tuple[Callable[[int], None], Callable[[], None]]:
    """(what the readers call with the bytes that they read, what takes the bar away). Only a terminal has a bar.

    A reader whose caller is gone has nobody left to tell.
    """
    caller = os.getppid()
    bar = None
    if passes and sys.stderr.isatty():
        from chainwatch.cli.bar import Bar

        bar = Bar(path, passes)

    def progress(count: int) -> None:
        if os.getppid() != caller:
            os._exit(USAGE)
        if bar is not None:
            bar.advance(count)

    return progress, (lambda: None) if bar is None else bar.clear


def _state(given: Arguments) -> str:
    return os.path.abspath(
        os.path.expanduser(given.values.get("--state") or os.environ.get("CHAINWATCH_STATE") or DEFAULT_STATE)
    )


def _seal(report: RunReport, state: str, keep: int, rate: float, progress: Callable[[int], None]) -> Dict[str, str]:
    """Path of each checkpoint that was to be sealed -> why it could not be; empty where it is sealed now."""
    from chainwatch.checkpoints.seal import SealError, due, make_seal

    newest = [each for each in report.checkpoints if each.intact][-keep:] if keep else []
    done = {each.path: "" for each in newest}  # those that are not due have a seal that fits
    for each in due(report, state, keep):
        try:
            make_seal(each, state, int(rate * 1e6) or None, progress=progress)
        except SealError as error:
            done[each.path] = str(error)
    return done


def _number(given: Arguments, name: str, default: float) -> float:
    try:
        number = float(given.values.get(name, default))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Usage(f"{name} takes a number, not {given.values[name]!r}")
    return number


def _document(
    report: RunReport, counts: Dict[str, List[TensorCount]], sealed: Dict[str, str], given: Arguments
) -> Dict[str, Any]:
    shown = document(report)
    for each in shown["checkpoints"] if "--nan" in given.flags else ():
        each["nan"] = [tensor._asdict() for tensor in counts[each["path"]]]
    if "--seal" in given.flags:
        shown["sealed"] = [path for path, error in sealed.items() if not error]
        shown["not_sealed"] = [{"path": path, "reason": error} for path, error in sealed.items() if error]
    return shown


def _print(report: RunReport, counts: Dict[str, List[TensorCount]], sealed: Dict[str, str]) -> None:
    if not report.checkpoints:
        print(f"no checkpoint at {printable(report.path)}")
    for each in report.checkpoints:
        _print_one(each, report)
        if each.path in counts:
            _print_counts(counts[each.path])
        if each.path in sealed:
            _line(f"not sealed: {sealed[each.path]}" if sealed[each.path] else "sealed")
    if report.newest_intact is not None and len(report.checkpoints) > 1:
        print(f"newest intact: {printable(report.newest_intact.path)}")


def _print_one(each: Checkpoint, report: RunReport) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    word = each.status.value.replace("_", " ")
    shown = f"\033[{COLOURS[each.status]}m{word:11}\033[0m" if colour else f"{word:11}"
    step = "-" if each.step is None else str(each.step)
    name = os.path.relpath(each.path, report.path) if each.path != report.path else os.path.basename(each.path)
    print(f"{shown}  step {step:>8}  {printable(name)}  ({each.format})")
    _line(each.reason)
    if each.status is Status.IN_PROGRESS:
        _line(waits(each))
    for problem in each.problems[1:SHOWN]:
        _line(f"- {problem.sentence()}")
    for warning in each.warnings[:SHOWN]:
        _line(f"! {warning}")
    if each.unverifiable and each.intact:
        _line("flipped bits in its tensors cannot be seen: the format has no checksum that covers them (--seal)")


def _print_counts(counts: List[TensorCount]) -> None:
    found = [each for each in counts if each.nan or each.infinite]
    noted = [each for each in counts if each.note]
    values = sum(each.values for each in counts)
    tensors = f"{len(counts) - len(noted):,} floating point tensors, {values:,} values"
    _line(f"{tensors}: {f'NaN or infinity in {len(found):,}' if found else 'no NaN, no infinity'}")
    for each in found[:SHOWN]:
        what = f"{each.nan:,} NaN, {each.infinite:,} infinite of {each.values:,}"
        _line(f"- {each.file}: {printable(each.name)} ({each.dtype}): {what}")
    if len(found) > SHOWN:
        _line(f"- and {len(found) - SHOWN:,} more (--json has all)")
    for each in noted[:SHOWN]:
        _line(f"! {each.file}: {printable(each.name) + ' ' if each.name else ''}not counted: {each.note}")


def _line(text: str) -> None:
    print(f"             {text}")
