"""What differs between two attempts of a chain: the first question when a run that went well fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from chainwatch.model.chain import Attempt
from chainwatch.model.text import some

_OURS = "CHAINWATCH_"
_MOST = 8
"""So many names of variables are told."""


def last_that_progressed(attempts: Sequence[Attempt], this: Attempt) -> Attempt | None:
    """The newest attempt before `this` one that left a newer intact checkpoint than it found."""
    return next((a for a in reversed(attempts) if a.number < this.number and a.saved_progress), None)


def changed(before: Attempt | None, this: Attempt) -> list[str]:
    """A clause for each thing that is known of both and differs; nothing where there is nothing to compare with."""
    if before is None:
        return []
    found = []
    for what, old, new in (
        ("batch script", before.script_digest[:19], this.script_digest[:19]),
        ("git commit", _commit(before.commit), _commit(this.commit)),
        ("container image", before.image, this.image),
        ("nodes", ", ".join(before.job.nodes), ", ".join(this.job.nodes)),
        ("partition", before.job.partition, this.job.partition),
        ("QOS", before.job.qos, this.job.qos),
    ):
        if old and new and old != new:
            found.append(f"{what}: {old} in attempt {before.number}, {new} now")
    if before.image and not this.image and this.script_digest:
        found.append(f"container image: {before.image} in attempt {before.number}, none now")
    return found + _variables(before, this)


def variables(before: Attempt | None, this: Attempt) -> dict[str, set[str]]:
    """Names of the environment's variables that are `new` and `gone`, as far as both are known; our own are no news. Names
    only: values may be secrets."""
    if before is None or not before.variables or not this.variables:
        return {"new": set(), "gone": set()}
    old, now = ({name for name in a.variables if not name.startswith(_OURS)} for a in (before, this))
    return {"new": now - old, "gone": old - now}


def _variables(before: Attempt, this: Attempt) -> list[str]:
    return [
        f"environment: {verb} since attempt {before.number}: {some(sorted(names), _MOST)}"
        for verb, names in variables(before, this).items()
        if names
    ]


def _commit(commit: str) -> str:
    return f"{commit.removesuffix('+')} with uncommitted changes" if commit.endswith("+") else commit
