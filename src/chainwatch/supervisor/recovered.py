"""Does what failed work again? One probe for each kind of incident, each bounded.

Storage is tried in the run directory of a few of the chains, by the reader processes: looked at, read, and, where
chainwatch may act, written. A network that was gone shows in the states of the nodes. Of a service beyond the cluster only
Slurm's own answer can be had.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from chainwatch.diagnosis.incidents import Incident
from chainwatch.model.job import Node
from chainwatch.model.verdict import Cause
from chainwatch.slurm.backend import Backend, NoInformation
from chainwatch.supervisor.readers import Place, Readers, Silent

SAMPLES = 3
"""Chains whose storage is tried in one probe."""
_STILL_OUT = 0.25
"""Share of the nodes that may be out when the network is taken for recovered: some are broken for a reason of their own."""
_NAMED = 4
_BLOCK = 1 << 16
_SCRATCH = ".chainwatch"
"""chainwatch's own directory beside the run: nothing of the user's is written."""


def storage(place: Place, write: bool) -> str:
    """What is wrong with the storage of this chain; empty if nothing is. Raises OSError where a read fails."""
    where = place.settings.checkpoints
    for path in dict.fromkeys(
        (place.directory, os.path.join(place.directory, where.directory) if where else place.directory)
    ):
        if path == place.directory or os.path.lexists(path):
            _read_something(path)
    return _written(place.directory) if write else ""


def _read_something(directory: str) -> None:
    """Look at the directory, and read the beginning of its first plain file."""
    with os.scandir(directory) as entries:
        plain = next((e.path for e in entries if e.is_file(follow_symlinks=False)), None)
    if plain is not None:
        file = os.open(plain, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            os.read(file, _BLOCK)
        except PermissionError:
            pass
        finally:
            os.close(file)


def _written(directory: str) -> str:
    scratch = os.path.join(directory, _SCRATCH)
    path = os.path.join(scratch, f"probe-{os.uname().nodename}-{os.getpid()}")
    try:
        os.makedirs(scratch, exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"chainwatch\n" * 512)
            file.flush()
            os.fsync(file.fileno())
        os.unlink(path)
    except OSError as error:
        return f"{error.filename or path} cannot be written: {error.strerror}"
    return ""


def probe(
    incident: Incident, places: Sequence[tuple[Place, bool]], backends: Sequence[Backend], readers: Readers
) -> str:
    """What is still wrong; empty where the probe of this kind of incident shows recovery.

    `places`: run directories of its chains, each with whether it may be written. `backends`: of the clusters of its chains.
    """
    if incident.cause is Cause.STORAGE:
        return _storage(places, readers)
    if incident.cause is Cause.TRANSIENT_SERVICE:
        return _answers(backends)
    return _nodes(incident, backends)


def _storage(places: Sequence[tuple[Place, bool]], readers: Readers) -> str:
    for place, write in places[:SAMPLES]:
        answer = readers.probe(place, write=write)
        if isinstance(answer, Silent):
            return f"the storage of {place.chain}: {answer.why}"
        if answer:
            return answer
    return ""


def _answers(backends: Sequence[Backend]) -> str:
    for backend in backends:
        try:
            backend.info()
        except NoInformation as error:
            return f"{backend.name} does not answer: {error}"
    return ""


def _nodes(incident: Incident, backends: Sequence[Backend]) -> str:
    known: list[Node] = []
    for backend in backends:
        try:
            known += backend.nodes(incident.nodes)
        except NoInformation as error:
            return f"the states of the nodes are not known: {error}"
    out = [node for node in known if not node.usable]
    if known and len(out) <= _STILL_OUT * len(known):
        return ""
    named = ", ".join(f"{node.name} is {node.state}" for node in out[:_NAMED])
    more = f" and {len(out) - _NAMED} more are out" if len(out) > _NAMED else ""
    return f"{named}{more}" if out else "none of the nodes is known to Slurm"
