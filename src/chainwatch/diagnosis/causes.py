"""The closed list of causes: how each is called, whether the same job again would help, and what a person should do."""

from __future__ import annotations

from dataclasses import dataclass

from chainwatch.model.verdict import Cause, Retry


@dataclass(frozen=True, slots=True)
class CauseWords:
    """What there is to say of a cause in general; a signature may know better."""

    name: str
    retry: Retry
    advice: str


CAUSES: dict[Cause, CauseWords] = {
    Cause.COMPLETED: CauseWords("completed", Retry.NO, "Nothing to do; name a proof under `done:` to have it proven."),
    Cause.PREEMPTION: CauseWords("preempted", Retry.YES, "Resubmit from the newest intact checkpoint."),
    Cause.TIME_LIMIT: CauseWords("time limit", Retry.YES, "Resubmit from the newest intact checkpoint."),
    Cause.CANCELLED_BY_USER: CauseWords(
        "cancelled by its user", Retry.NO, "Nothing is resubmitted; `chainwatch retry` goes on where it stopped."
    ),
    Cause.CANCELLED_BY_OTHER: CauseWords(
        "cancelled by somebody else", Retry.NO, "Ask the site's staff why, before `chainwatch retry`."
    ),
    Cause.HARDWARE_GPU: CauseWords(
        "GPU fault", Retry.YES_EXCLUDE_NODE, "Resubmit without that node, and report it to the site's support."
    ),
    Cause.HARDWARE_NODE: CauseWords(
        "node fault", Retry.YES_EXCLUDE_NODE, "Resubmit without that node, and report it to the site's support."
    ),
    Cause.NETWORK_FABRIC: CauseWords(
        "network fault", Retry.YES, "Resubmit; if it repeats, report the nodes of both ends to the site's support."
    ),
    Cause.STORAGE: CauseWords("storage fault", Retry.WAIT, "Wait until the file system works, then resubmit."),
    Cause.OOM_GPU: CauseWords(
        "out of GPU memory", Retry.NO, "Use a smaller micro-batch or sequence, more checkpointing, or more sharding."
    ),
    Cause.OOM_HOST: CauseWords(
        "out of host memory", Retry.NO, "Ask for more --mem, or use fewer loader workers and less caching."
    ),
    Cause.CHECKPOINT_CORRUPT: CauseWords(
        "damaged checkpoint", Retry.NO, "Resume from an older intact checkpoint; `chainwatch latest` names it."
    ),
    Cause.NUMERIC: CauseWords(
        "numerical divergence", Retry.NO, "Go back to a checkpoint before it began, with other settings or data order."
    ),
    Cause.HANG: CauseWords(
        "hang",
        Retry.YES,
        "Resubmit; if it hangs at the same step again, look for a collective that not all ranks call.",
    ),
    Cause.RENDEZVOUS: CauseWords("rendezvous failed", Retry.YES, "Resubmit; choose the master port by job id."),
    Cause.TRANSIENT_SERVICE: CauseWords("service outage", Retry.WAIT, "Wait, then resubmit; cache what is fetched."),
    Cause.ENVIRONMENT: CauseWords(
        "broken environment", Retry.NO, "Repair the software environment, then `chainwatch retry`."
    ),
    Cause.USER_CONFIG: CauseWords("wrong settings", Retry.NO, "Correct the settings, then `chainwatch retry`."),
    Cause.USER_CODE: CauseWords("program error", Retry.NO, "Correct the program, then `chainwatch retry`."),
    Cause.UNKNOWN: CauseWords(
        "unknown cause", Retry.YES, "Look at the end of the log: the same end twice is no chance."
    ),
}
