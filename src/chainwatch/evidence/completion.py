"""Measuring the configured proofs of completion: the step that was reached, marks in logs, marker files, outputs.

Nothing is concluded here. What could not be looked at is unknown, which is another answer than "not there".
"""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import re2

from chainwatch.evidence.logs.file import LogReader, Unreadable
from chainwatch.evidence.marks import begin_of, marks_in
from chainwatch.model.job import Job
from chainwatch.model.pattern import in_lines
from chainwatch.model.plain_file import read_plain
from chainwatch.model.verdict import Line, Proof, RuleFact

if TYPE_CHECKING:
    from chainwatch.config.models import Done, Mark, MarkerFile
    from chainwatch.evidence.logs import LogFile

_START_SLACK = timedelta(seconds=2)
_LARGEST_MARKER = 16 << 20
_GONE = (FileNotFoundError, NotADirectoryError)


def measure_completion(
    done: Done, *, directory: str, logs: Sequence[LogFile] = (), step: int | None = None, job: Job | None = None
) -> tuple[RuleFact, ...]:
    """One fact per configured rule, in the order of the configuration.

    `step` is the newest training step that anything tells. Of one mark the part of the logs counts that `job`, the attempt
    that ended, has written; where N tasks leave N marks, all of it.
    """
    facts: list[RuleFact] = []
    if done.step is not None:
        facts.append(_final_step(done.step, step))
    if done.mark is not None:
        facts.append(_mark(done.mark, logs, job if done.mark.count == 1 else None))
    if done.file is not None:
        facts.append(_marker_file(done.file, directory))
    facts += [_output(pattern, directory) for pattern in done.outputs]
    return tuple(facts)


def _final_step(wanted: int, step: int | None) -> RuleFact:
    rule = f"final step {wanted}"
    if step is None:
        return RuleFact(rule, Proof.UNKNOWN, "no step is known")
    return RuleFact(rule, Proof.YES if step >= wanted else Proof.NO, f"step {step} was reached")


def _mark(mark: Mark, logs: Sequence[LogFile], job: Job | None) -> RuleFact:
    plural = "s" if mark.count > 1 else ""
    rule = f"{mark.count} line{plural} like /{mark.pattern}/ in the log"
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    pattern = re2.compile(in_lines(mark.pattern).encode(), options)
    found: list[Line] = []
    total = behind = 0
    problems: list[str] = [] if logs else ["no log file is known"]
    for file in logs:
        try:
            with LogReader(file.path) as log:
                seen = marks_in(log, file.start, pattern, mark.count, job)
                if seen.lines and job is not None and job.start is not None:
                    begin = begin_of(log, file.start, job.start - _START_SLACK)
                    if (seen.lines[0].offset or 0) < begin:  # an earlier attempt's, or another run's
                        seen = marks_in(log, begin, pattern, mark.count, job)
        except Unreadable as error:
            problems.append(str(error))
            continue
        found += seen.lines
        total += seen.count
        behind += seen.behind
    shown = f"{total} such line{'' if total == 1 else 's'}"
    if total >= mark.count:
        return RuleFact(rule, Proof.YES, shown, tuple(found[-3:]))
    if problems:
        return RuleFact(rule, Proof.UNKNOWN, f"{shown}, but not all could be read ({'; '.join(problems)})")
    if behind:
        return RuleFact(
            rule, Proof.NO, "only behind Slurm's notice that it ends the job, where a script prints it as well"
        )
    return RuleFact(rule, Proof.NO, shown if total else "no such line")


def _marker_file(marker: MarkerFile, directory: str) -> RuleFact:
    wanted = "" if marker.field is None else f" with {marker.field}"
    wanted += "" if marker.field is None or marker.equals is None else f" = {marker.equals!r}"
    rule = f"file {marker.path}{wanted}"
    paths, problem = _matches(str(marker.path), directory)
    if not paths:
        return RuleFact(rule, Proof.UNKNOWN, problem) if problem else RuleFact(rule, Proof.NO, "no such file")
    if marker.field is None:
        return RuleFact(rule, Proof.YES, f"{paths[0]} exists", (Line(paths[0], None, "exists"),))
    last = RuleFact(rule, Proof.NO, "no such file")
    for path in paths:
        last = _field_of(rule, path, marker)
        if last.proof is Proof.YES:
            return last
    return last


def _field_of(rule: str, path: str, marker: MarkerFile) -> RuleFact:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_MARKER:
            return RuleFact(rule, Proof.UNKNOWN, f"{path} is no plain file of a sane size")
        value = json.loads(read_plain(path))
    except _GONE:
        return RuleFact(rule, Proof.NO, "no such file")
    except OSError as error:
        return RuleFact(rule, Proof.UNKNOWN, f"{path}: {error.strerror}")
    except (ValueError, RecursionError):
        return RuleFact(rule, Proof.UNKNOWN, f"{path} is not complete JSON")
    for key in (marker.field or "").split("."):
        if not isinstance(value, dict) or key not in value:
            return RuleFact(rule, Proof.NO, f"{path} has no field {marker.field}")
        value = value[key]
    holds = bool(value) if marker.equals is None else type(value) is type(marker.equals) and value == marker.equals
    if not holds and isinstance(value, int | float) and isinstance(marker.equals, int | float):
        holds = not isinstance(value, bool) and not isinstance(marker.equals, bool) and value == marker.equals
    shown = f"{marker.field} is {json.dumps(value)[:80]} in {path}"
    if holds:
        return RuleFact(rule, Proof.YES, shown, (Line(path, None, shown),))
    return RuleFact(rule, Proof.NO, shown)


def _output(pattern: str, directory: str) -> RuleFact:
    rule = f"output {pattern}"
    paths, problem = _matches(str(pattern), directory)
    if paths:
        return RuleFact(rule, Proof.YES, f"{len(paths)} found", (Line(paths[0], None, "exists"),))
    return RuleFact(rule, Proof.UNKNOWN, problem) if problem else RuleFact(rule, Proof.NO, "none found")


def _matches(pattern: str, directory: str) -> tuple[list[str], str]:
    """Paths that match, ascending; and why that cannot be known, where the storage does not answer."""
    full = os.path.join(directory, pattern)
    try:
        _ask(full)
    except OSError as error:
        return [], f"{error.filename or full}: {error.strerror}"
    found = sorted(glob.glob(full, recursive=True)) if glob.has_magic(full) else [full] * os.path.exists(full)
    return found, ""


def _ask(full: str) -> None:
    """Look at the place itself, since glob takes every error for "nothing there". Raises OSError other than absence."""
    place = full
    while glob.has_magic(place):
        place = os.path.dirname(place)
    try:
        if stat.S_ISDIR(os.stat(place).st_mode):
            with os.scandir(place) as entries:
                next(entries, None)
    except _GONE:
        return
