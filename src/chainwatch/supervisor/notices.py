"""Which kind of message a notice is, for routes and digests: told by the first word of its key."""

from __future__ import annotations

from chainwatch.alerts.message import Kind

_KINDS = {
    "resting": Kind.PERSON,
    "stopped": Kind.PERSON,
    "two": Kind.PERSON,
    "would": Kind.PERSON,
    "wait": Kind.PERSON,
    "tell": Kind.PERSON,
    "vain": Kind.PERSON,
    "vanished": Kind.PERSON,
    "suspect": Kind.CHANGED,
    "unseen": Kind.PERSON,
    "broken": Kind.PERSON,
    "done": Kind.DONE,
    "first-recovery": Kind.FIRST_RECOVERY,
    "corrupt": Kind.RECOVERY,
    "edited": Kind.CHANGED,
    "move": Kind.CHANGED,
    "pending": Kind.PENDING,
    "pause-over": Kind.PAUSE_OVER,
    "incident": Kind.INCIDENT,
    "cohort": Kind.PERSON,
    "hang": Kind.HANG,
    "hung": Kind.HANG,
    "hung-refused": Kind.PERSON,
    "nan": Kind.PERSON,
    "blind": Kind.BLIND,
    "limit": Kind.EARLY,
    "room": Kind.EARLY,
    "slow": Kind.EARLY,
    "unsaved": Kind.EARLY,
    "last": Kind.PERSON,
}


def kind_of(key: str) -> Kind:
    """The kind behind a key such as `stopped:3`; OTHER for a word that is not listed."""
    return _KINDS.get(key.split(":", 1)[0], Kind.OTHER)
