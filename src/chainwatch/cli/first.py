"""Submitting the first job of a chain from a command: the same decision, intent and effect as the daemon's."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import typer

from chainwatch.actions import beforehand
from chainwatch.actions.audit import Audit
from chainwatch.config.models import Chain, Config
from chainwatch.config.site import load_site, pause_reason
from chainwatch.evidence.follow import Following
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.clock import SystemClock
from chainwatch.model.job import Job
from chainwatch.model.plain_file import text_of
from chainwatch.model.verdict import Progress
from chainwatch.slurm.backend import Backend
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import reading, recovered
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.history import of
from chainwatch.supervisor.house import House
from chainwatch.supervisor.readers import AtOnce, LeftBehind, Place, Silent


class DirectReaders(AtOnce):
    """`Readers` that read at once, in this process: a person waits in front of it and can press Ctrl-C."""

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        del fresh
        if place.settings.checkpoints is None:
            return None
        try:
            return reading.checkpoints(place, settle, SystemClock().now().timestamp())
        except OSError as e:
            return Silent(f"{e.filename}: {e.strerror}")

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        del now
        return reading.left_behind(place, job)

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        return reading.progress(place, job, Following(), now)[0]

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        return recovered.storage(place, write)

    def close(self) -> None:
        """Nothing is left open."""


def submit_first(store: Store, state: Path, record: ChainRecord, backends: Mapping[str, Backend]) -> ChainRecord:
    """Decide and submit. The record that comes back says what happened: `facts["expected"]` has the job id, or the state
    and sentence say why there is none (refused, uncertain, no intact checkpoint)."""
    house = House(
        store=store,
        lease=None,
        state=state,
        config=Config(state=state),
        backends=backends,
        readers=DirectReaders(),
        clock=SystemClock(),
        audit=Audit(state),
        user=getpass.getuser(),
        uid=os.getuid(),
        site=load_site(),
        paused_by_site=pause_reason(),
    )
    acting = Acting(house)
    now = house.clock.now()
    settings = house.settings(record)
    place = Place(record.name, settings, acting.directory(record, settings))
    _warn_of_script(settings, place.directory)
    return acting.decide_and_act(record, settings, place, of(house, record, now), (), now)


def _warn_of_script(settings: Chain, directory: str) -> None:
    """A line on stderr where the job's output will have no place, and one where its proof of completion proves nothing."""
    try:
        text = text_of(settings.batch)
    except OSError:
        return  # what is wrong with the script is said when it is submitted
    if missing := beforehand.missing_log_directories(settings, text, directory):
        typer.echo(f"chainwatch: {beforehand.without_logs(missing)}", err=True)
    if said := beforehand.prints_the_mark(settings, text):
        typer.echo(f"chainwatch: {said}", err=True)


def captured_umask() -> int:
    """The umask of the shell that types the command: with it the chain's jobs write their files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def captured_environment() -> dict[str, str]:
    """The environment of the shell that types the command: what the chain's jobs get."""
    return {k: v for k, v in os.environ.items() if "\0" not in v}
