"""What a reader process does: plain functions of plain arguments, run where a hanging file system hurts nobody."""

from __future__ import annotations

import glob
import os
import subprocess
from dataclasses import replace
from datetime import timedelta

from chainwatch.actions.compose import digest
from chainwatch.checkpoints import verify
from chainwatch.checkpoints.formats.custom import Rule
from chainwatch.diagnosis.completion import judge_completion
from chainwatch.evidence import LogFile, read_logs
from chainwatch.evidence.completion import measure_completion
from chainwatch.evidence.end_records import read_end_records
from chainwatch.evidence.progress import ProgressReader
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import Progress
from chainwatch.signatures import Matcher, builtin_matcher, builtin_signatures, user_signatures
from chainwatch.slurm.paths import expand_to_glob, log_paths
from chainwatch.supervisor.readers import LeftBehind, Place

_START_SLACK = timedelta(seconds=2)
"""Clocks of nodes and of the controller differ a little: a line this much older still belongs to the attempt."""
_TAIL = 1 << 18


def checkpoints(place: Place, settle: timedelta, now: float) -> RunReport:
    """Every checkpoint of the chain, judged quickly. A directory that does not exist yet holds none."""
    where = place.settings.checkpoints
    assert where is not None, "asked only where a directory is configured"
    path = os.path.join(place.directory, where.directory)
    try:
        os.stat(path)
    except FileNotFoundError:
        return RunReport(path=path, format=None, checkpoints=(), newest_intact=None)
    wanted = None if where.format == "auto" else where.format
    custom = Rule.parse(where.custom) if where.custom is not None else None
    return verify(path, format=wanted, now=now, settle=settle.total_seconds(), custom=custom)


def log_files(place: Place, job: Job) -> list[str]:
    """The attempt's logs: what Slurm names, and what the configuration adds, each once."""
    found = list(log_paths(job).distinct)
    for pattern in place.settings.logs.files:
        full = os.path.join(place.directory, str(pattern))
        found += sorted(glob.glob(expand_to_glob(full, job), recursive=True))
    return list(dict.fromkeys(found))


def left_behind(place: Place, job: Job) -> LeftBehind:
    """Logs, completion marks and the state of the script, after an attempt ended."""
    settings = place.settings
    reader = ProgressReader(settings.logs.profile, settings.logs.progress)
    files = [LogFile(path) for path in log_files(place, job)]
    since = job.start - _START_SLACK if job.start else None
    logs = read_logs(files, matcher=_matcher(place), since=since, nodes=job.nodes, progress=reader)
    progress = Progress(step=logs.step, target=settings.done.step or logs.total, source="log", loss=logs.loss)
    facts = measure_completion(settings.done, directory=place.directory, logs=files, step=logs.step)
    return LeftBehind(
        logs=logs,
        progress=progress,
        completion=judge_completion(facts, settings.done.rule),
        end_records=read_end_records((place.directory, job.directory), job),
        digest=_digest(str(settings.batch)),
        commit=_commit(place.directory),
    )


def progress(place: Place, job: Job) -> Progress:
    """The newest step in the last part of a running attempt's logs."""
    settings = place.settings
    reader = ProgressReader(settings.logs.profile, settings.logs.progress)
    newest = Progress(target=settings.done.step)
    for path in log_files(place, job):
        try:
            with open(path, "rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - _TAIL))
                reached = reader.newest(log.read(_TAIL))
        except OSError:
            continue
        if reached is not None and (newest.step is None or reached.step > newest.step):
            target = settings.done.step or reached.total
            newest = replace(newest, step=reached.step, loss=reached.loss, target=target, source=path)
    return newest


def _matcher(place: Place) -> Matcher:
    own = place.settings.logs.signatures
    if own is None:
        return builtin_matcher()
    return Matcher([*builtin_signatures(), *user_signatures(own)])


def _digest(script: str) -> str:
    try:
        with open(script, "rb") as f:
            return digest(f.read())
    except OSError:
        return ""


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


__all__ = ["checkpoints", "left_behind", "log_files", "progress"]
