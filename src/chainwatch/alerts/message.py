"""What an alert says: what ended, why, the line that proves it, what was done or is wanted, the command to type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from chainwatch.model.text import clean, redact
from chainwatch.store.records import Notice

SEVERITIES = ("info", "warning", "critical")


class Kind(StrEnum):
    """What an alert is about: routes and the runbook go by it."""

    PERSON = "person"
    """A chain rests or stopped and waits for a person."""
    DONE = "done"
    FIRST_RECOVERY = "first_recovery"
    """The first time that chainwatch brings a chain back: so that people know it works."""
    RECOVERY = "recovery"
    CHANGED = "changed"
    """Something that people should know of: an edited script, an excluded node, a checkpoint set aside."""
    INCIDENT = "incident"
    """Many chains failing together from one cause of the cluster."""
    HANG = "hang"
    BLIND = "blind"
    """Slurm or the storage does not answer."""
    PENDING = "pending"
    """A job waits for a reason that needs a person."""
    PAUSE_OVER = "pause_over"
    TEST = "test"
    EARLY = "early"
    """Something is ahead of a job that still runs: its time limit, a full disk, saves that stopped coming."""
    OTHER = "other"


class Tone(StrEnum):
    """How often this alert was said before."""

    NEW = "new"
    LATE = "late"
    """Settled before it could be told."""
    REMINDER = "reminder"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Message:
    """One alert, in plain text without control characters. Channels add their own markup and escapes."""

    title: str
    severity: str
    kind: str
    chain: str | None
    created: datetime
    what: str = ""
    """What ended or happened: `attempt 7 (job 4711) of run-a failed`."""
    why: str = ""
    line: str = ""
    """The line that proves it, verbatim apart from control characters and secrets."""
    source: str = ""
    """Where that line stands."""
    did: str = ""
    """What chainwatch did."""
    wants: str = ""
    """What a person should do."""
    command: str = ""
    """The command to type."""
    runbook: str = ""
    """Where the page about this kind of alert stands, or the command that prints it."""
    tone: Tone = Tone.NEW
    times: int = 0
    """How many reminders went before."""
    key: str = ""
    notice: int = 0

    @property
    def headline(self) -> str:
        """The title with its tone, one line."""
        before = {
            Tone.NEW: "",
            Tone.LATE: "Settled by now: ",
            Tone.REMINDER: "Still open: ",
            Tone.RECOVERED: "Recovered: ",
        }
        return before[self.tone] + self.title

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Label and text of everything but title, line and command, in reading order; empty ones left out."""
        pairs = (
            ("Chain", self.chain or ""),
            ("What", self.what),
            ("Why", self.why),
            ("chainwatch", self.did),
            ("Wanted", self.wants),
        )
        return tuple((label, text) for label, text in pairs if text)


def body(
    kind: Kind,
    *,
    what: str = "",
    why: str = "",
    line: str = "",
    source: str = "",
    did: str = "",
    wants: str = "",
    command: str = "",
    runbook: str = "",
) -> dict[str, str]:
    """The body of a notice (`store.owe`), in the words that `from_notice` reads back."""
    given = {
        "kind": kind.value,
        "what": what,
        "why": why,
        "line": line,
        "source": source,
        "did": did,
        "wants": wants,
        "command": command,
        "runbook": runbook,
    }
    return {key: text for key, text in given.items() if text}


def from_notice(notice: Notice, *, tone: Tone = Tone.NEW, times: int = 0, runbooks: str | None = None) -> Message:
    """The message of an owed notice, cleaned: nothing in it is markup, a control character or a known secret.

    `runbooks` is the address of the site's own runbook; without it the command that prints the page is named.
    """
    said: Mapping[str, Any] = notice.body
    kind = str(said.get("kind") or ("person" if notice.severity == "critical" else "other"))

    def text(key: str, limit: int = 1000) -> str:
        value = said.get(key)
        return "" if value is None else redact(clean(str(value), limit))

    page = text("runbook", 100) or kind
    return Message(
        title=redact(clean(notice.title, 250, one_line=True)) or "chainwatch",
        severity=notice.severity if notice.severity in SEVERITIES else "warning",
        kind=clean(kind, 40, one_line=True),
        chain=None if notice.chain is None else clean(notice.chain, 200, one_line=True),
        created=notice.created,
        what=text("what"),
        why=text("why"),
        line=text("line", 1500),
        source=text("source", 300),
        did=text("did"),
        wants=text("wants"),
        command=text("command", 500),
        runbook=f"{runbooks.rstrip('/')}/{page}" if runbooks else f"chainwatch runbook {page}",
        tone=tone,
        times=times,
        key=clean(notice.key, 200, one_line=True),
        notice=notice.id,
    )


def plain(message: Message) -> str:
    """The message as plain text: for e-mail, Apprise and terminals."""
    out = [f"[{message.severity}] {message.headline}", ""]
    out += [f"{label}: {text}" for label, text in message.facts()]
    if message.line:
        out += ["", f"Proof{f' ({message.source})' if message.source else ''}:", *_indented(message.line)]
    if message.command:
        out += ["", "Type:", *_indented(message.command)]
    out += ["", f"More: {message.runbook}", f"Since: {message.created:%Y-%m-%d %H:%M:%S} UTC"]
    return "\n".join(out)


def as_dict(message: Message) -> dict[str, Any]:
    """The message as JSON values."""
    values = asdict(message)
    values["created"] = message.created.isoformat()
    values["tone"] = message.tone.value
    return values


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]
