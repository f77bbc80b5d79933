"""One line of a log as it is meant: without colours, without the prefix that says which rank or node wrote it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][A-Z0-9]|[@-Z\\^_=>])")
_RANK = re.compile(
    rb"\s?(?:"
    rb"\[(?:rank|Rank|default|worker|trainer|proc)[ :]{0,2}(?P<rank>\d{1,6})\]:? ?"  # torch, elastic --tee
    rb"|\[\d+,(?P<mpi>\d{1,6})\]<(?:stdout|stderr|stddiag)>: ?"  # mpirun --tag-output
    rb"|\[[A-Za-z][\w.-]{0,62}:\d{1,3}\]: ?"  # node and local rank
    rb"|(?P<task>\d{1,6}): "  # srun --label
    rb"|\[?(?:stderr|stdout)\]?: ?"  # launchers that collect their children's output
    rb"|\((?:[\w.:-]+ )?pid=\d+(?:, ip=[\d.a-fA-F:]+)?\) ?"  # ray
    rb"|(?:\[(?!WARN|INFO|DEBUG|NOTE|warn|info|debug)[A-Za-z][\w./ #-]{0,60}\]:? ?|[A-Za-z][\w.-]{0,40} {1,9}\| ?)"
    rb"(?=Traceback \(most recent|  File \"|    \S|(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?:: |$))"  # somebody's own
    rb")"
)
_COLLECTED = re.compile(
    rb"\[?\d{4}-\d\d-\d\d[ T][\d:.,]{8,15}\]? (?:"
    rb"- [\w.]{1,60} - [A-Z]{4,8} - (?=\[rank\d)"
    rb"|(?:- [\w.]{1,60} - |\[|\| )?(?:INFO|DEBUG|ERROR|STDERR|STDOUT)(?:\]|\b) *[-:|]? ?"
    rb"(?=Traceback \(most recent|  File \"|    \S|(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?:: |$)))"
)
"""A launcher that logs what its children print, with a time and a level of its own."""
_STAMPED = re.compile(
    rb"(?:\[?\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d[\d.,]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?(?: std(?:out|err) [FP])?"
    rb"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]?"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [A-Za-z][\w.-]{0,62})?(?: [\w./-]{1,40}\[\d+\]:)?)(?:[:|]| \|)? "
)
_UNSTAMPED = re.compile(
    rb"Traceback \(most recent|  File \"|    \S|  what\(\)|(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)"
    rb"|(?:ERROR|Error|error(?!: (?:\*|Detected))|FATAL|Fatal|fatal)\b"
    rb"|(?:terminate|Segmentation|Aborted|Killed|Bus error|Floating point)\b"
    rb"|(?:srun|slurmstepd|torch|usage|[\w./-]+\.py): |\w+(?:\.\w+)+(?::|$)"
)
"""`ts`, syslog or an engine of containers puts the time before all that a program prints, also before its tracebacks."""
_NODE = re.compile(rb"([A-Za-z0-9][\w.-]{0,62}): ")
_STAMPS = (
    re.compile(rb"(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6})\d*)?(Z|[+-]\d\d:?\d\d)?"),
    re.compile(rb"(\d{4})/(\d\d)/(\d\d)[ T](\d\d):(\d\d):(\d\d)()()"),
)
_GLOG = re.compile(rb"^\W{0,2}[IWEFD](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_CTIME = re.compile(
    rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
    rb"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) "
    rb"(\d\d):(\d\d):(\d\d)(?: [A-Z]{2,5})? (\d{4})"
)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_PREFIXES = 3
"""`n01: 3: [rank3]: ` is as deep as it was seen."""


@dataclass(frozen=True, slots=True)
class CleanLine:
    """What the program wrote, and who it was."""

    text: bytes
    key: bytes = b""
    """The stripped prefixes: lines of one writer share it."""
    rank: int | None = None
    node: str | None = None


def clean(line: bytes, nodes: Collection[str] = ()) -> CleanLine:
    """`line` without colours and writer prefixes. A host name is a prefix only if it is one of the job's `nodes`."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    rank: int | None = None
    node: str | None = None
    collected = _COLLECTED.match(line)
    begin = start = collected.end() if collected else _stamped(line, nodes)
    for _ in range(_PREFIXES):
        found = _RANK.match(line, start)
        if found:
            number = found["rank"] or found["mpi"] or found["task"]
            rank = rank if number is None else int(number)
            start = found.end()
            continue
        if nodes and (host := _NODE.match(line, start)) and host[1].decode() in nodes:
            node = host[1].decode()
            start = host.end()
            continue
        break
    return CleanLine(line[start:], line[begin:start], rank, node) if start else CleanLine(line)


def _stamped(line: bytes, nodes: Collection[str]) -> int:
    """The end of the time that somebody else put before what a program printed; 0 where the program wrote it itself."""
    found = _STAMPED.match(line)
    if found is None:
        return 0
    end = found.end()
    if _UNSTAMPED.match(line, end) or _RANK.match(line, end):
        return end
    host = _NODE.match(line, end) if nodes else None
    return end if host is not None and host[1].decode() in nodes else 0


def unstamped(line: bytes) -> bytes:
    """What follows the time at the head of a line; empty where there is none."""
    found = _STAMPED.match(line)
    return b"" if found is None else line[found.end() :]


def stamp(line: bytes, year: int | None = None) -> tuple[datetime, bool] | None:
    """The first time stamp in the first 200 bytes: the naive time, and whether it is surely UTC.

    Stamps without a year (glog) need `year`. A numeric offset is applied, and the result is UTC.
    """
    head = line[:200]
    for pattern in _STAMPS:
        if found := pattern.search(head):
            when = _moment([int(found[i]) for i in range(1, 7)], found[7])
            return None if when is None else _zoned(when, found[8])
    if found := _CTIME.search(head):
        when = _moment([int(found[6]), _MONTHS.index(found[1]) + 1, *(int(found[i]) for i in range(2, 6))])
        return None if when is None else (when, False)
    if year is not None and (found := _GLOG.match(head)):
        when = _moment([year, *(int(found[i]) for i in range(1, 6))], found[6])
        return None if when is None else (when, False)
    return None


def aware(when: tuple[datetime, bool]) -> datetime:
    """A stamp as UTC; without a zone it is taken for this machine's local time, which is Slurm's and Python's habit."""
    naive, utc = when
    return naive.replace(tzinfo=UTC) if utc else naive.astimezone(UTC)


def earlier_in_any_zone(when: tuple[datetime, bool], limit: datetime) -> bool:
    """Surely before `limit`, whether the program's clock showed local time or, as in containers, UTC."""
    naive, utc = when
    return naive.replace(tzinfo=UTC) < limit and (utc or naive.astimezone(UTC) < limit)


def _moment(parts: list[int], micro: bytes | None = None) -> datetime | None:
    year, month, day, hour, minute, second = parts
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), int((micro or b"0").ljust(6, b"0")[:6]))
    except ValueError:
        return None


def _zoned(when: datetime, zone: bytes | None) -> tuple[datetime, bool]:
    if not zone:
        return when, False
    if zone == b"Z":
        return when, True
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return (when - offset if zone[:1] == b"+" else when + offset), True
