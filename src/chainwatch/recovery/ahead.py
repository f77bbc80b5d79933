"""What would be decided if the present job ended as one that may simply be followed by the next: for a standby."""

from __future__ import annotations

from dataclasses import replace

from chainwatch.model.chain import Decision, Resubmit
from chainwatch.recovery.budget import judged
from chainwatch.recovery.decide import Situation, decide


def decide_ahead(s: Situation) -> Decision:
    """`decide`, with the checkpoint left open: a standby picks it when it starts, and only what it must not pick is told.

    A job behind the chain's first one is a recovery job already, so it gets their options.
    """
    decision = decide(replace(s, settings=s.settings.model_copy(update={"checkpoints": None})))
    if isinstance(decision, Resubmit) and not judged(s.history.attempts):
        return replace(decision, extra=s.settings.recovery.sbatch)
    return decision
