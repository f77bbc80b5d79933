"""`chainwatch logs CHAIN`: the logs of all attempts as one stream, with a line between them that says what happened."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.cli.words import whole
from chainwatch.config.models import Chain
from chainwatch.evidence.log_stream import Part, Tail, merged, parts, plain
from chainwatch.evidence.logs.file import Unreadable
from chainwatch.model.chain import Attempt, ChainState
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.reading import log_files

_LOOK_AGAIN = 5.0
_BEFORE = 40
_ALL = 1 << 30
"""Lines of a log that appeared while it was followed: all of them."""
_OVER = {ChainState.DONE, ChainState.STOPPED}


def logs(
    chain: common.ChainName,
    number: common.AttemptNumber = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the logs grow, over attempts.")] = False,
    attempt: common.AttemptOption = None,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            metavar="N",
            parser=whole(0, 10**9),
            help="Only so many last lines [all; with -f, 40 before the new].",
        ),
    ] = None,
    state: common.State = None,
) -> None:
    """The logs of all attempts, or of one, as one stream. Ranks are merged by time where their lines are stamped.

    Exit code 1: there is no such chain or attempt.
    """
    attempt = common.one_attempt(number, attempt)
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        attempts = store.attempts(chain)
        wanted = [a for a in attempts if attempt is None or a.number == attempt]
        if not wanted and not (follow and attempt is None):
            common.fail(f"{chain} has no attempt {attempt if attempt is not None else 'yet'}", common.NO)
        if follow:
            _follow(store, record, _BEFORE if lines is None else lines, attempt)
            return
        steps = {save.path: save.step for save in store.saves(chain)}
        found = stream(record, attempts, wanted, steps)
        for line in found if lines is None else deque(found, maxlen=lines):
            _write(line)


def stream(
    record: ChainRecord,
    attempts: Sequence[Attempt],
    wanted: Sequence[Attempt],
    steps: Mapping[str, int | None] | None = None,
) -> Iterator[bytes]:
    """Everything that these attempts wrote, each under a line of its own."""
    paths = {a.number: _paths(record, a) for a in attempts}
    for each in wanted:
        yield heading(each, steps).encode() + b"\n"
        mine = [part for path in paths[each.number] if (part := _part(path, each, attempts, paths)) is not None]
        if not mine:
            yield b"chainwatch: no log of this attempt is known\n"
        yield from merged(mine)
        if each.verdict is not None:
            yield ending(each).encode() + b"\n"


def heading(attempt: Attempt, steps: Mapping[str, int | None] | None = None) -> str:
    """How an attempt began. `steps`: those of the checkpoints that are known, by path."""
    start = f", started {attempt.job.start:%Y-%m-%d %H:%M:%S} UTC" if attempt.job.start else ""
    where = f" on {', '.join(attempt.job.nodes)}" if attempt.job.nodes else ""
    source = ""
    if attempt.resumed_from:
        known = (steps or {}).get(attempt.resumed_from, attempt.saved_before)
        step = f" (step {known})" if known is not None else ""
        source = f", resumed from {attempt.resumed_from}{step}"
    return f"──── attempt {attempt.number}: job {attempt.job.shown_id}{where}{start}{source} ────"


def ending(attempt: Attempt) -> str:
    """How it ended, and why."""
    assert attempt.verdict is not None, "an attempt that ended was judged"
    at = f" {attempt.ended:%Y-%m-%d %H:%M:%S} UTC" if attempt.ended else ""
    reached = f" at step {attempt.step_after}" if attempt.step_after is not None else ""
    return f"──── attempt {attempt.number} ended{at}{reached}: {attempt.verdict.sentence} ────"


def _paths(record: ChainRecord, attempt: Attempt) -> list[str]:
    settings = Chain.stored(record.settings)
    directory = str(settings.directory or record.facts.get("directory") or attempt.job.directory)
    return log_files(Place(record.name, settings, directory), attempt.job)


def _part(path: str, own: Attempt, attempts: Sequence[Attempt], paths: dict[int, list[str]]) -> Part | None:
    """What this attempt wrote into a file that others may share."""
    sharing = [a for a in attempts if path in paths[a.number]]
    try:
        found = parts(path, [a.job.start for a in sharing])
    except Unreadable:
        return None
    return found[sharing.index(own)]


class _Follower:
    """Shows what is appended, attempt after attempt, none of them left out however short it was."""

    def __init__(self, store: Store, record: ChainRecord, last: int, only: int | None) -> None:
        self._store, self._record, self._last, self._only = store, record, last, only
        self._shown: int | None = None
        self._ended: set[int] = set()
        self._tails: dict[str, Tail] = {}

    def look(self) -> bool:
        """Whether it is over: the chain is done or stopped, or the one attempt that was asked for has ended."""
        record = self._record = self._store.chain(self._record.name) or self._record
        attempts = [a for a in self._store.attempts(record.name) if self._only is None or a.number == self._only]
        steps = {save.path: save.step for save in self._store.saves(record.name)}
        first = self._shown is None
        for each in attempts[-1:] if first else attempts:
            if first or each.number > (self._shown or 0):
                self._shown = each.number
                _write(heading(each, steps).encode() + b"\n")
            if each.number == self._shown:
                self._open(each, self._last if first else _ALL)
                self.pass_on()
                if each.verdict is not None and each.number not in self._ended:
                    self._ended.add(each.number)
                    _write(ending(each).encode() + b"\n")
        over = record.state in _OVER or (self._only is not None and self._only in self._ended)
        if over:
            _write(f"──── {record.state}: {record.sentence} ────\n".encode())
        return over

    def pass_on(self) -> None:
        """Write what was appended."""
        _pass_on(list(self._tails.values()))

    def _open(self, attempt: Attempt, lines: int) -> None:
        """Its logs; one that an earlier attempt wrote to is read on, and others come as they appear."""
        paths = _paths(self._record, attempt)
        self._tails = {path: self._tails.get(path) or Tail(path, lines) for path in paths}


def _follow(store: Store, record: ChainRecord, last: int, only: int | None) -> None:
    """Until the chain is done or stopped, or Ctrl-C."""
    follower = _Follower(store, record, last, only)
    looked = float("-inf")
    while True:
        if time.monotonic() - looked >= _LOOK_AGAIN:
            looked = time.monotonic()
            if follower.look():
                return
        follower.pass_on()
        time.sleep(0.5)


def _pass_on(tails: Sequence[Tail]) -> None:
    for tail in tails:
        if text := tail.new():
            _write(text)


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(plain(text) if sys.stdout.isatty() else text)
    sys.stdout.buffer.flush()
