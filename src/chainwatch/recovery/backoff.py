"""How long to wait before trying again, by cause."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from chainwatch.config.models import Recovery
from chainwatch.model.verdict import Cause

_PASSES_BY_ITSELF = frozenset(
    {Cause.STORAGE, Cause.NETWORK_FABRIC, Cause.TRANSIENT_SERVICE, Cause.RENDEZVOUS, Cause.UNKNOWN, Cause.HANG}
)


_A_CHAIN = timedelta(seconds=30)
_LONGEST = timedelta(minutes=30)


def jitter(chain: str, number: int) -> float:
    """A fraction in [0, 1), fixed for this chain and attempt: chains spread out, and a restart changes nothing."""
    return int.from_bytes(hashlib.blake2b(f"{chain}#{number}".encode(), digest_size=4).digest(), "big") / 2**32


def wait_after(cause: Cause, failures: int, policy: Recovery, fraction: float) -> timedelta:
    """The wait after the `failures`-th end (1 for the first) of this kind without saved progress.

    Causes that pass by themselves wait `backoff`, doubled each time up to `backoff_max`, of which the last half is
    jitter; capacity and single nodes (preemption, time limit, hardware) need no wait: the queue is one.
    """
    if cause not in _PASSES_BY_ITSELF:
        return timedelta(0)
    full: timedelta = min(policy.backoff * float(2 ** min(max(failures, 1) - 1, 30)), policy.backoff_max)
    return full / 2 + full / 2 * fraction


def turn(chain: str, over: datetime, chains: int) -> datetime:
    """When this chain returns from an incident that is over: spread over half a minute for each of its chains, and never
    over more than half an hour, so that storage and controller are not brought down again by all of them at once."""
    span = min(_A_CHAIN * max(chains, 1), _LONGEST)
    return over + span * jitter(chain, chains)


def space_out(preemptions: int, policy: Recovery, fraction: float) -> timedelta:
    """The wait between submissions once preemptions without saved progress have reached `preemptions_alert`."""
    over = preemptions - policy.preemptions_alert
    if over < 0:
        return timedelta(0)
    full: timedelta = min(policy.backoff * float(2 ** min(over, 30)), policy.backoff_max)
    return full / 2 + full / 2 * fraction
