"""What `chainwatch exec` noted at the end: it knows exit codes that srun rewrites, and why a node was refused. Pure."""

from __future__ import annotations

from chainwatch.diagnosis.choice import Choice
from chainwatch.diagnosis.wording import Reading
from chainwatch.model.verdict import Cause, Evidence, Outcome, Retry

PREFLIGHT = 75
"""Exit code of `chainwatch exec` on a node that is not fit; 3 where no checkpoint is intact, 2 where none can be read."""
NONE_INTACT = 3
_WEAK = 60
"""A line below this specificity may be what a killed process left behind."""


def refused_to_start(evidence: Evidence) -> Reading | None:
    """The command was never started: a node that is not fit, or no checkpoint to start from."""
    refusals = [r for r in evidence.end_records if r.preflight and r.exit_code is not None]
    if not refusals:
        return None
    bad = tuple(dict.fromkeys(r.bad_node for r in refusals if r.bad_node))
    first = next((r for r in refusals if r.bad_node), refusals[0])
    if bad:
        why = f"the preflight refused {', '.join(bad)}: {first.preflight}"
        return Reading(
            Outcome.FAILED, Cause.HARDWARE_NODE, 0.92, None, Retry.YES_EXCLUDE_NODE, culprits=bad, why=why
        )  # fmt: skip
    if first.exit_code == NONE_INTACT:
        return Reading(Outcome.FAILED, Cause.CHECKPOINT_CORRUPT, 0.92, None, Retry.NO, why=first.preflight)
    return Reading(Outcome.FAILED, Cause.STORAGE, 0.85, None, Retry.WAIT, why=first.preflight)


def killed_for_memory(evidence: Evidence, choice: Choice) -> Reading | None:
    """The kernel killed for memory while the command ran, and SIGKILL is how it ended: Slurm need not have noticed."""
    killed = [r for r in evidence.end_records if r.oom_kill and (r.signal == 9 or r.exit_code == 137)]
    root = choice.root
    if not killed or (root is not None and not root.effect and root.specificity >= _WEAK):
        return None
    why = f"the kernel killed a process of the job on {killed[0].node} for memory"
    return Reading(Outcome.FAILED, Cause.OOM_HOST, 0.88, None, why=why)
