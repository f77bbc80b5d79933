"""What a reader process does: plain functions of plain arguments, run where a hanging file system hurts nobody."""

from __future__ import annotations

import glob
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from chainwatch.actions import options
from chainwatch.actions.compose import digest
from chainwatch.actions.image import container_image
from chainwatch.checkpoints import verify
from chainwatch.checkpoints.cache import FindingCache
from chainwatch.checkpoints.formats.custom import Rule
from chainwatch.checkpoints.idle import IdleReports
from chainwatch.diagnosis.completion import judge_completion
from chainwatch.evidence import LogFile, read_logs
from chainwatch.evidence.completion import measure_completion
from chainwatch.evidence.end_records import read_end_records
from chainwatch.evidence.follow import Following, Phase, follow
from chainwatch.evidence.progress import ProgressReader
from chainwatch.evidence.room import room
from chainwatch.evidence.signs import Signs, heartbeats, saves
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.plain_file import read_plain, text_of
from chainwatch.model.verdict import EndRecord, Progress
from chainwatch.signatures import Matcher, builtin_matcher, builtin_signatures, user_signatures
from chainwatch.slurm.paths import expand_to_glob, log_paths
from chainwatch.supervisor.readers import LeftBehind, Place

_START_SLACK = timedelta(seconds=2)
"""Clocks of nodes and of the controller differ a little: a line this much older still belongs to the attempt."""

_FILES = FindingCache()
"""What this process found of files that have not changed since: a waiting chain is looked at in every poll."""


_REPORTS = IdleReports()
"""What this process last said of run directories in which nothing has happened since."""


def checkpoints(place: Place, settle: timedelta, now: float, fresh: bool = True) -> RunReport:
    """Every checkpoint of the chain, judged quickly. A directory that does not exist yet holds none.

    `fresh` False: what was said when anything last happened there will do.
    """
    where = place.settings.checkpoints
    assert where is not None, "asked only where a directory is configured"
    path = os.path.join(place.directory, where.directory)
    try:
        os.stat(path)
    except FileNotFoundError:
        return RunReport(path=path, format=None, checkpoints=(), newest_intact=None)
    wanted = None if where.format == "auto" else where.format
    custom = Rule.parse(where.custom) if where.custom is not None else None
    seconds = settle.total_seconds()

    def judge() -> RunReport:
        return verify(path, format=wanted, now=now, settle=seconds, examine_file=_FILES, custom=custom)

    begun = time.monotonic()
    report = _REPORTS.report(path, (wanted, custom, seconds), judge, fresh)
    return report._replace(took=time.monotonic() - begun)


def script(read: Callable[[str], bytes], path: str) -> bytes | str:
    """The bytes of a batch script, or why it cannot be read."""
    try:
        return read(path)
    except OSError as e:
        return e.strerror or str(e)


def log_files(place: Place, job: Job) -> list[str]:
    """The attempt's logs: what Slurm names, and what the configuration adds, each once."""
    found = list(log_paths(_with_patterns(place, job)).distinct)
    for pattern in place.settings.logs.files:
        for globs in (False, True):  # a name may hold what looks like a glob
            whole = expand_to_glob(str(pattern), job, directory=place.directory, globs=globs)
            found += sorted(glob.glob(whole, recursive=True))
    return list(dict.fromkeys(found))


def _with_patterns(place: Place, job: Job) -> Job:
    """The job with the log patterns that it was submitted with: accounting before 24.05 knows none."""
    if job.stdout:
        return job
    settings, directory = place.settings, job.directory or place.directory
    try:
        text = text_of(settings.batch)
    except OSError:
        text = ""
    given = (*options.script_options(text), *options.parse(settings.sbatch).options)
    stdout, stderr = options.last(given, "output") or "", options.last(given, "error") or ""
    return replace(job, directory=directory, stdout=stdout, stderr=job.stderr or stderr)


def left_behind(place: Place, job: Job) -> LeftBehind:
    """Logs, completion marks and the state of the script, after an attempt ended."""
    settings = place.settings
    reader = ProgressReader(settings.logs.profile, settings.logs.progress)
    files = [LogFile(path) for path in log_files(place, job)]
    since = job.start - _START_SLACK if job.start else None
    logs = read_logs(files, matcher=_matcher(place), since=since, nodes=job.nodes, progress=reader)
    progress = Progress(step=logs.step, target=settings.done.step or logs.total, source="log", loss=logs.loss)
    script = _script(str(settings.batch))
    facts = measure_completion(settings.done, directory=place.directory, logs=files, step=logs.step, job=job)
    return LeftBehind(
        logs=logs,
        progress=progress,
        completion=judge_completion(facts, settings.done.rule),
        end_records=_end_records(place, job),
        digest=digest(script) if script else "",
        image=container_image(script.decode(errors="replace"), settings.sbatch),
        commit=_commit(place.directory),
    )


def _end_records(place: Place, job: Job) -> tuple[EndRecord, ...]:
    """The records are a help: where they cannot be read, the rest of the evidence stands."""
    try:
        return read_end_records((place.directory, job.directory), job)
    except OSError:
        return ()


def progress(place: Place, job: Job, following: Following, now: datetime) -> tuple[Progress, Following]:
    """How far a running attempt is, and the state to hand in at the next poll: only what is new is read.

    The log tells the step; where it tells none, the program's heartbeat, then a trainer_state.json.
    """
    settings = place.settings
    reader = _reader(settings.logs.profile, settings.logs.progress)
    paths = log_files(place, job)
    beat = heartbeats((place.directory, job.directory), job)
    saved, left = Signs(), None
    if settings.checkpoints is not None:
        run = os.path.join(place.directory, settings.checkpoints.directory)
        saved = saves(run, job.start)
        left = room(run, saved.save, now.timestamp()) if settings.warnings.enabled else None
    seen = follow(following, paths, reader, now, job.start)
    best = seen.newest()
    if best is None:
        told = beat if beat.step is not None else saved
        seen = seen.told(told.step, now)
    else:
        told = Signs(best.step, best.total, best.loss, best.phase, "log", best.tokens)
    phase = beat.phase or next(
        (c.phase for c in seen.cursors.values() if c.phase not in {None, Phase.TRAINING}), told.phase
    )
    return Progress(
        step=told.step,
        target=settings.done.step or told.total,
        source=told.source,
        at=seen.step_at,
        loss=told.loss,
        tokens=told.tokens,
        rate=seen.rate(now),
        phase=str(phase or ""),
        restarts=max((c.restarts for c in seen.cursors.values()), default=0),
        life="|".join((seen.life(), beat.life, saved.life)),
        room=left,
    ), seen


@lru_cache(maxsize=64)
def _reader(profile: str, pattern: str | None) -> ProgressReader:
    return ProgressReader(profile, pattern)


def _matcher(place: Place) -> Matcher:
    own = place.settings.logs.signatures
    if own is None:
        return builtin_matcher()
    return Matcher([*builtin_signatures(), *user_signatures(own)])


def _script(path: str) -> bytes:
    try:
        return read_plain(path)
    except OSError:
        return b""


def _commit(directory: str) -> str:
    """Git commit of the working directory, `+` behind it where files were changed; empty where it is no repository."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", directory, *words], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


__all__ = ["checkpoints", "left_behind", "log_files", "progress", "script"]
