"""A daemon that can die between any two effects: before and after each commit, request, rename and written file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from sqlalchemy.engine import Connection

from chainwatch.actions import moving, resume_file
from chainwatch.actions.audit import Audit
from chainwatch.store import Store
from chainwatch.store.records import Lease

POINTS = (
    *("submit:before", "submit:after", "cancel:before", "cancel:after", "audit:after", "alert:before"),
    *("rename:before", "rename:after", "pointer:before", "pointer:after", "resume file:before", "resume file:after"),
)
"""Points that are worth a death by name: the commits lie between them."""
READS = frozenset({"info", "queue", "accounting", "job", "script", "nodes"})


class Killed(BaseException):
    """The daemon is dead: no line of it runs any more."""


class Reaper:
    """Kills at planned points. A number is: after so many points (reading costs none); a name: at the next such point."""

    def __init__(self, plan: tuple[int | str, ...]) -> None:
        self._plan = list(plan)
        self._passed = 0
        self.enabled = True
        self.deaths: list[str] = []

    def pass_by(self, point: str) -> None:
        """A point between two effects. Raises `Killed` if it is the daemon's last."""
        if not self.enabled or not self._plan or point.split(":")[0] in READS:
            return
        self._passed += 1
        due = self._plan[0]
        if point == due or (isinstance(due, int) and self._passed >= due):
            self._plan.pop(0)
            self._passed = 0
            self.deaths.append(point)
            raise Killed(point)


class MortalStore(Store):
    """The real store; every commit has a moment before and one after it."""

    reaper: Reaper | None = None
    commits = 0
    """How often something was written, the lease's renewals left out."""
    _quiet = False

    def renew_lease(self, lease: Lease, ttl: timedelta, now: datetime) -> Lease:
        self._quiet = True  # it happens in every tick, and dying at it is like dying before the next effect
        try:
            return super().renew_lease(lease, ttl, now)
        finally:
            self._quiet = False

    @contextmanager
    def _writing(self, lease: Lease | None = None) -> Iterator[Connection]:
        outermost = getattr(self._local, "connection", None) is None and not self._quiet
        with super()._writing(lease) as connection:
            yield connection
            if outermost and self.reaper is not None:
                self.reaper.pass_by("commit:before")
        self.commits += outermost
        if outermost and self.reaper is not None:
            self.reaper.pass_by("commit:after")


class MortalAudit(Audit):
    """The audit log in memory."""

    def __init__(self, reaper: Reaper) -> None:
        self.notes: list[tuple[datetime, str, str | None, dict[str, Any]]] = []
        self._reaper = reaper

    def note(self, now: datetime, effect: str, chain: str | None, **facts: Any) -> None:
        self._reaper.pass_by("audit:before")
        self.notes.append((now, effect, chain, facts))
        self._reaper.pass_by("audit:after")


@contextmanager
def mortal_files(reaper: Reaper) -> Iterator[None]:
    """Renames and written files of the actions are points of death too."""

    def around(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            reaper.pass_by(f"{name}:before")
            result = function(*args, **kwargs)
            reaper.pass_by(f"{name}:after")
            return result

        return call

    with ExitStack() as stack:
        for module, name, point in (
            (moving, "_rename", "rename"),
            (moving, "_write", "pointer"),
            (resume_file, "write", "resume file"),
        ):
            stack.enter_context(patch.object(module, name, around(point, getattr(module, name))))
        yield
