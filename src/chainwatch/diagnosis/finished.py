"""Whether the program's own words say that it finished: the completion text that nothing after it takes back."""

from __future__ import annotations

from chainwatch.diagnosis.choice import before, went_on
from chainwatch.diagnosis.slurm_end import SlurmEnd
from chainwatch.model.job import JobState
from chainwatch.model.verdict import Cause, Evidence, Finding, Outcome, Proof

TEXT_AGAINST_FACT = 80
"""Specificity that a completion text needs against a preemption or a node failure."""
_NO_TEARDOWN = 60
_SCRIPT_WORDS = "completion/script-words"
_WORDS = frozenset({_SCRIPT_WORDS, "completion/training-words", "completion/program-words"})
_A_SIGN, _KILLS = 18, 42
"""Specificity of a failure that takes back a script's last words, and a program's where Slurm does not say FAILED."""
_A_CAUSE = 30
_LAST_EPOCH = "completion/keras-last-epoch"
_ONLY_AT_START = frozenset({"config/argparse", "config/hydra-omegaconf", "environment/script-file-missing"})
_STAGE_FAILS = frozenset({Cause.OOM_GPU, Cause.NUMERIC, Cause.USER_CODE, Cause.USER_CONFIG, Cause.CHECKPOINT_CORRUPT})


def completion_text(evidence: Evidence, end: SlurmEnd, least: int) -> Finding | None:
    """The last completion text that training did not continue after; none where a configured proof says no."""
    if evidence.completion.configured and evidence.completion.proof is Proof.NO:
        return None
    if end.outcome in (Outcome.PREEMPTED, Outcome.NODE_FAILED, Outcome.HUNG):
        least = max(least, TEXT_AGAINST_FACT)
    text = last_completion(evidence)
    return text if text is not None and text.specificity >= least else None


def last_completion(evidence: Evidence) -> Finding | None:
    """The last completion text that nothing after it, and no death before it, takes back."""
    texts = [
        f
        for f in evidence.logs.findings
        if f.cause is Cause.COMPLETED
        and not f.effect
        and not went_on(f)
        and not _a_stage(f, evidence)
        and not _after_a_death(f, evidence)
    ]
    if not texts:
        return None
    top = max(f.specificity for f in texts)
    return max((f for f in texts if f.specificity >= top - 15), key=lambda f: (f.specificity >= top, f.order))


def _a_stage(text: Finding, evidence: Evidence) -> bool:
    """Only one stage was finished: another program did not start, or steps and a failure that no teardown has follow."""
    after = [f for f in evidence.logs.findings if not f.effect and before(text, f)]
    if text.signature == _LAST_EPOCH:  # the program itself says nothing of an end
        return any(f.cause not in {Cause.UNKNOWN, Cause.COMPLETED} and f.specificity >= _A_CAUSE for f in after)
    later = [f for f in after if f.specificity >= _NO_TEARDOWN]
    saving = text.signature == "completion/saved-final"
    return any(
        f.signature in _ONLY_AT_START
        or (text.survived > 0 and f.cause in _STAGE_FAILS)
        or (saving and f.cause is Cause.STORAGE)
        for f in later
    )


def _after_a_death(text: Finding, evidence: Evidence) -> bool:
    """A script says at its end that it is done, and above that its program died, which is no word of the program."""
    if text.signature not in _WORDS:
        return False
    failed = evidence.job.state is JobState.FAILED
    least = _A_SIGN if text.signature == _SCRIPT_WORDS else _A_CAUSE if failed else _KILLS
    return any(
        f.cause is not Cause.COMPLETED
        and f.specificity >= least
        and not (f.survived or f.well)
        and (least == _A_SIGN or not f.effect)
        and (failed or not f.survivable)
        and before(f, text)
        for f in evidence.logs.findings
    )
