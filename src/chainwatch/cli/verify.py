"""`chainwatch verify PATH`: the verdict on a checkpoint, or on every checkpoint of a run directory."""

from __future__ import annotations

import os
import sys

from chainwatch.checkpoints.files.base import human, printable
from chainwatch.cli.light import (
    USAGE,
    Arguments,
    document,
    error_text,
    exit_code,
    judging_command,
    print_json,
    say,
    seconds,
)
from chainwatch.model.checkpoint import RunReport, Status

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Callable, List, Optional

HELP = """\
usage: chainwatch verify PATH [--deep] [--format NAME] [--json] [--settle SECONDS]

Judges the checkpoint at PATH, or every checkpoint under that run directory: intact, damaged, incomplete or in progress.

Exit codes: 0 intact (for a run directory: an intact one exists); 1 no checkpoint there; 3 there are, none intact;
2 usage, or PATH cannot be read.
  --deep             read all bytes and verify every checksum that the format has
  --format NAME      judge only checkpoints of that format (default: found by itself)
  --json             the answer as JSON
  --settle SECONDS   an unfinished checkpoint that changed within this time is in progress (default 300)
"""

COLOURS = {Status.INTACT: "32", Status.DAMAGED: "31", Status.INCOMPLETE: "33", Status.IN_PROGRESS: "36"}


def main(arguments: List[str]) -> int:
    """Run the command; returns the exit code."""
    return judging_command(arguments, HELP, _verify)


def _verify(path: str, given: Arguments) -> int:
    from chainwatch.checkpoints.verify import SETTLE, verify

    deep = "--deep" in given.flags
    bar = _Bar(path) if deep and sys.stderr.isatty() else None
    progress: Optional[Callable[[int], None]] = None if bar is None else bar.advance
    try:
        report = verify(
            path,
            deep,
            given.values.get("--format"),
            settle=seconds(given.values, "--settle", SETTLE),
            progress=progress,
        )
    except OSError as error:
        say(error_text(error, path))
        return USAGE
    finally:
        if bar is not None:
            bar.clear()
    if "--json" in given.flags:
        print_json(document(report))
    else:
        _print(report)
    return exit_code(report)


def _print(report: RunReport) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if not report.checkpoints:
        print(f"no checkpoint at {printable(report.path)}")
    for each in report.checkpoints:
        word = each.status.value.replace("_", " ")
        shown = f"\033[{COLOURS[each.status]}m{word:11}\033[0m" if colour else f"{word:11}"
        step = "-" if each.step is None else str(each.step)
        name = os.path.relpath(each.path, report.path) if each.path != report.path else os.path.basename(each.path)
        print(f"{shown}  step {step:>8}  {printable(name)}  ({each.format})")
        print(f"             {each.reason}")
        for problem in each.problems[1:20]:
            print(f"             - {problem.sentence()}")
        for warning in each.warnings[:20]:
            print(f"             ! {warning}")
        if each.unverifiable and each.intact:
            print(
                "             flipped bits in its tensors cannot be seen: the format has no checksum that covers them"
            )
    if report.newest_intact is not None and len(report.checkpoints) > 1:
        print(f"newest intact: {printable(report.newest_intact.path)}")


class _Bar:
    """Bytes read so far and per second, on a terminal."""

    WIDTH = 30

    def __init__(self, path: str) -> None:
        import time

        self.clock = time.monotonic
        self.started = self.drawn = self.clock()
        self.total = _bytes_below(path)
        self.done = 0

    def advance(self, count: int) -> None:
        """`count` more bytes were read; redrawn ten times a second."""
        self.done += count
        now = self.clock()
        if now - self.drawn < 0.1:
            return
        self.drawn = now
        share = min(1.0, self.done / self.total) if self.total else 0.0
        full = int(share * self.WIDTH)
        rate = human(self.done / max(now - self.started, 1e-6))
        bar = "#" * full + "." * (self.WIDTH - full)
        sys.stderr.write(f"\r[{bar}] {share:4.0%} {human(self.done)} of {human(self.total)}, {rate}/s\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave no trace."""
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _bytes_below(path: str, limit: int = 100_000) -> int:
    """Bytes of the file, or of the files below the directory, as far as `limit` entries."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            limit -= 1
            if limit < 0:
                return total
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
