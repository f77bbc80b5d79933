"""When a silent job's processes are looked at, and what came of it.

That a look was begun is written down before it is, so that no restart of the daemon makes more of them than an hour may
have. Its result is fetched by a later pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from chainwatch.actions import stacks
from chainwatch.config.models import Chain, Hang
from chainwatch.diagnosis.hang import Silence
from chainwatch.diagnosis.probe import judge, named_by_all
from chainwatch.model.job import Job, JobState
from chainwatch.model.probe import Finding, Odd
from chainwatch.recovery.hanging import LOOKS, TIMES_ALERT
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.house import House

FACT = "probes"
"""Fact of the chain's record: when probes of which attempt were begun, and what they found in this silence."""
MOST_AN_HOUR = 3
PATIENCE = timedelta(minutes=3)
"""How long a result is waited for: a daemon that was started anew waits in vain."""


@dataclass(frozen=True, slots=True)
class Book:
    """What is remembered of one attempt's probes."""

    attempt: str
    begun: tuple[datetime, ...] = ()
    waiting: datetime | None = None
    """When the one began whose result is not there."""
    findings: tuple[Finding, ...] = ()
    """Of the silence that lasts; oldest first."""
    vain: bool = False
    """A look at this silence gave no result."""

    @property
    def named(self) -> tuple[str, ...]:
        """Nodes on which the newest looks agree, surely."""
        return named_by_all(self.findings[-LOOKS:]) if len(self.findings) >= LOOKS else ()

    @classmethod
    def of(cls, value: object, attempt: str) -> Book:
        """Back from `as_dict`; an empty one for another attempt, and for anything that is none."""
        if not isinstance(value, Mapping) or value.get("attempt") != attempt:
            return cls(attempt)
        try:
            waiting = value.get("waiting")
            return cls(
                attempt,
                tuple(datetime.fromisoformat(each) for each in value.get("begun", ())),
                datetime.fromisoformat(waiting) if waiting else None,
                tuple(_finding(each) for each in value.get("findings", ())),
                bool(value.get("vain")),
            )
        except (KeyError, TypeError, ValueError):
            return cls(attempt)

    def as_dict(self) -> dict[str, Any]:
        """JSON."""
        return {
            "attempt": self.attempt,
            "begun": [each.isoformat() for each in self.begun],
            "waiting": self.waiting.isoformat() if self.waiting else None,
            "vain": self.vain,
            "findings": [asdict(each) | {"at": each.at.isoformat()} for each in self.findings],
        }

    def in_silence(self, silence: bool, now: datetime) -> Book:
        """As it is now: what was found is over with the silence, and a result is not waited for for ever."""
        if not silence:
            return replace(self, waiting=None, findings=(), vain=False)
        late = self.waiting is not None and now - self.waiting > PATIENCE
        return replace(self, waiting=None, vain=True) if late else self

    def with_finding(self, finding: Finding) -> Book:
        return replace(self, waiting=None, findings=(*self.findings, finding)[-4:])

    def begins(self, now: datetime) -> Book:
        return replace(self, begun=(*self.begun, now)[-MOST_AN_HOUR:], waiting=now)

    def wants(self, job: Job, silence: Silence, hang: Hang, now: datetime) -> bool:
        """One more look is wanted and allowed: the first one, and where a job may be ended a later one that agrees."""
        last_hour = [each for each in self.begun if now - each < timedelta(hours=1)]
        if not hang.probe or self.waiting or len(last_hour) >= MOST_AN_HOUR or job.state is not JobState.RUNNING:
            return False
        if not self.findings:
            return not self.begun or now - self.begun[-1] > PATIENCE
        if not hang.end_job or silence.silent < TIMES_ALERT * silence.limit or self.named:
            return False
        return now - self.findings[-1].at >= min(silence.limit, timedelta(hours=1) / MOST_AN_HOUR)


def _finding(value: Mapping[str, Any]) -> Finding:
    return Finding(
        datetime.fromisoformat(value["at"]), Odd(value["odd"]), str(value["sentence"]), tuple(value["nodes"]),
        tuple(int(each) for each in value["ranks"]), bool(value["sure"]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What this pass knows of a silent job's processes."""

    book: Book
    begin: bool = False
    """A look is to begin, once the book is written down."""

    @property
    def waits(self) -> bool:
        """A first result is expected: people are told when it is there."""
        return not self.book.findings and self.book.waiting is not None and not self.book.vain


class Probing:
    """Looks at silent jobs for one house."""

    def __init__(self, house: House) -> None:
        self.house = house

    def inquire(
        self, record: ChainRecord, settings: Chain, job: Job, silence: Silence | None, now: datetime
    ) -> Inquiry:
        """Fetch what is there, and see whether one more look is due. Nothing is begun here."""
        book = Book.of(record.facts.get(FACT), str(job.attempt))
        report = self.house.probes.take(job.attempt) if self.house.probes else None
        if report is not None and silence is not None:
            book = book.with_finding(judge(report, now, silence.silent))
            self._keep(record, job, report.stacks, now)
        book = book.in_silence(silence is not None, now)
        able = self.house.probes is not None and self.house.may_act(record)
        begin = silence is not None and able and book.wants(job, silence, settings.hang, now)
        return Inquiry(book.begins(now) if begin else book, begin)

    def begin(self, record: ChainRecord, settings: Chain, job: Job, now: datetime) -> None:
        """Begin a look. The book that says so is written down already."""
        assert self.house.probes is not None, "asked only where there is a way to look"
        self.house.audit.note(now, "probe", record.name, job=job.job_id)
        self.house.probes.begin(record.cluster, job, settings.hang.stacks)

    def _keep(self, record: ChainRecord, job: Job, found: Mapping[int, str], now: datetime) -> None:
        if not found:
            return
        try:
            folder = stacks.keep(self.house.state, record.name, job.shown_id, now, found)
        except OSError as error:
            self.house.say(f"the stacks of job {job.shown_id} could not be kept: {error.strerror}", record, {})
        else:
            self.house.say(f"the stacks of {len(found)} ranks of job {job.shown_id} are in {folder}", record, {})
