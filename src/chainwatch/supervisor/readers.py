"""How the loop looks at users' storage: through a protocol, since storage may hang and the loop must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from chainwatch.config.models import Chain
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.job import Job
from chainwatch.model.verdict import Completion, EndRecord, LogEvidence, Progress, Proof

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Silent:
    """No answer (yet): storage is slow or hangs, or the work still goes on. Nothing may be concluded."""

    why: str


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What one attempt left behind in files."""

    logs: LogEvidence = LogEvidence(readable=False, problem="not read")
    progress: Progress = Progress()
    completion: Completion = Completion(Proof.UNKNOWN)
    end_records: tuple[EndRecord, ...] = ()
    digest: str = ""
    """Digest of the batch script as it is now."""
    commit: str = ""
    image: str = ""
    """Container image that the batch script names now."""
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """One chain's files, as the readers need to know them."""

    chain: str
    settings: Chain
    directory: str
    """Absolute working directory of the job."""
    since: datetime | None = None
    """Since when the chain is in its present state: a report of an earlier one does not count."""


class Readers(Protocol):
    """Reads of user storage. Each call returns within a second or two; a longer read goes on and is fetched by asking
    again with the same arguments."""

    def checkpoints(self, place: Place, *, settle: timedelta, fresh: bool = True) -> RunReport | Silent | None:
        """What lies in the checkpoint directory. None where none is configured.

        `settle`: how long an unfinished checkpoint must not have changed to count as incomplete; zero where no writer can
        live any more. `fresh` False: a report of a recent tick will do.
        """
        ...

    def left_behind(self, place: Place, job: Job, *, now: datetime) -> LeftBehind | Silent:
        """Logs, progress, completion marks and end records of one attempt."""
        ...

    def progress(self, place: Place, job: Job, *, now: datetime) -> Progress | Silent:
        """How far a running attempt is; cheap, asked in every poll."""
        ...

    def probe(self, place: Place, *, write: bool) -> str | Silent:
        """Whether the chain's storage works: what is wrong, empty where it can be looked at and read and, with `write`,
        written."""
        ...

    def work(self, key: str, function: Callable[..., T], *arguments: Any) -> T | Silent:
        """Any other short work on users' storage: a function of a module, with plain arguments, that turns what the
        storage refuses into an answer. Asking again under the same key fetches the answer of work that goes on."""
        ...

    def busy(self, key: str) -> bool:
        """Work under this key may still go on, perhaps in a process that was given up. Its answer is not fetched."""
        ...

    def close(self) -> None:
        """End whatever still reads."""
        ...


class AtOnce:
    """`work` in this process: where somebody waits for it, or nothing can hang."""

    def work(self, key: str, function: Callable[..., T], *arguments: Any) -> T | Silent:
        del key
        try:
            return function(*arguments)
        except OSError as e:
            return Silent(f"{e.filename or 'storage'}: {e.strerror or e}")

    def busy(self, key: str) -> bool:
        del key
        return False
