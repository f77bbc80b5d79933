"""`chainwatch logs CHAIN`: the logs of all attempts as one stream, with a line between them that says what happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from chainwatch.cli import common
from chainwatch.config.models import Chain
from chainwatch.evidence.log_stream import Part, Tail, merged, parts, plain
from chainwatch.evidence.logs_file import Unreadable
from chainwatch.model.chain import Attempt, ChainState
from chainwatch.store import Store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.reading import log_files

_LOOK_AGAIN = 5.0
_OVER = {ChainState.DONE, ChainState.STOPPED}


def logs(
    chain: common.ChainName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the logs grow, over attempts.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", "-a", help="Only this attempt.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="With -f: how many last lines come first.")] = 40,
    state: common.State = None,
) -> None:
    """The logs of all attempts as one stream. Ranks are merged by time where their lines are stamped."""
    with common.opened(state) as store:
        record = common.known_chain(store, chain)
        attempts = store.attempts(chain)
        wanted = [a for a in attempts if attempt is None or a.number == attempt]
        if not wanted and not (follow and attempt is None):
            common.fail(f"{chain} has no attempt {attempt if attempt is not None else 'yet'}", common.NO)
        if follow:
            _follow(store, record, lines, attempt)
            return
        for line in stream(record, attempts, wanted):
            _write(line)


def stream(record: ChainRecord, attempts: Sequence[Attempt], wanted: Sequence[Attempt]) -> Iterator[bytes]:
    """Everything that these attempts wrote, each under a line of its own."""
    paths = {a.number: _paths(record, a) for a in attempts}
    for each in wanted:
        yield heading(each).encode() + b"\n"
        mine = [part for path in paths[each.number] if (part := _part(path, each, attempts, paths)) is not None]
        if not mine:
            yield b"chainwatch: no log of this attempt is known\n"
        yield from merged(mine)
        if each.verdict is not None:
            yield ending(each).encode() + b"\n"


def heading(attempt: Attempt) -> str:
    """How an attempt began."""
    start = f", started {attempt.job.start:%Y-%m-%d %H:%M:%S} UTC" if attempt.job.start else ""
    where = f" on {', '.join(attempt.job.nodes)}" if attempt.job.nodes else ""
    source = ""
    if attempt.resumed_from:
        step = f" (step {attempt.saved_before})" if attempt.saved_before is not None else ""
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


def _follow(store: Store, record: ChainRecord, last: int, only: int | None) -> None:
    """Until the chain is done or stopped, or Ctrl-C."""
    shown: int | None = None
    ended: set[int] = set()
    tails: list[Tail] = []
    looked = float("-inf")
    while True:
        over = False
        if time.monotonic() - looked >= _LOOK_AGAIN:
            looked = time.monotonic()
            record = store.chain(record.name) or record
            attempts = [a for a in store.attempts(record.name) if only is None or a.number == only]
            _pass_on(tails)
            for each in attempts:
                if each.verdict is not None and each.number == shown and each.number not in ended:
                    ended.add(each.number)
                    _write(ending(each).encode() + b"\n")
            if attempts and attempts[-1].number != shown:
                newest = attempts[-1]
                _write(heading(newest).encode() + b"\n")
                tails, shown = [Tail(path, last) for path in _paths(record, newest)], newest.number
            elif attempts:
                known = {tail.path for tail in tails}
                tails += [Tail(path, last) for path in _paths(record, attempts[-1]) if path not in known]
            over = record.state in _OVER or (only is not None and only in ended)
        _pass_on(tails)
        if over:
            _write(f"──── {record.state}: {record.sentence} ────\n".encode())
            return
        time.sleep(0.5)


def _pass_on(tails: Sequence[Tail]) -> None:
    for tail in tails:
        if text := tail.new():
            _write(text)


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(plain(text) if sys.stdout.isatty() else text)
    sys.stdout.buffer.flush()
