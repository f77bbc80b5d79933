"""Verdict, history and policy to decision. Pure: the clock and everything known is handed in.

The order of the rules is the policy: what proves the end of the chain first, then what only a person may undo, then
what a retry cannot mend, then the budgets, then the waits, and last the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from chainwatch.config.models import Chain
from chainwatch.model.chain import (
    Attempt,
    Decision,
    FromCheckpoint,
    FromScratch,
    History,
    LeaveAlone,
    Rest,
    Resubmit,
    Stop,
    Wait,
)
from chainwatch.model.checkpoint import RunReport
from chainwatch.model.text import last_part
from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from chainwatch.recovery import avoid, backoff, budget, drains, nodes, resume
from chainwatch.recovery.retry import over_before
from chainwatch.recovery.time_limit import fitted
from chainwatch.recovery.worth import cost_more_than_it_computed

WRITER_PATIENCE = timedelta(minutes=30)
"""How long a checkpoint may go on changing after its job ended before a person is told: a dead node's processes live on
until its slurmd is back."""
STORAGE_BOUND = timedelta(hours=6)
"""A probe sees less than a job does: after this long the chain goes on, whatever the probe says."""
_LATER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision is made of."""

    settings: Chain
    history: History
    checkpoints: RunReport | None
    """None: the storage did not answer, or no directory is configured."""
    now: datetime
    partition_size: int | None = None
    submissions_per_hour: int | None = 60
    """None: no limit."""
    target: int | None = None
    """The final training step, where anything tells it."""
    storage: str = ""
    """What a probe finds wrong with the chain's storage now; empty where nothing is, or nobody looked."""


def decide(s: Situation) -> Decision:
    """What to do after the last attempt of the history, which has ended and was judged (or before the first one)."""
    last = _last(s)
    if last is None:
        return _limits(s) or _resubmit(s, "first job of the chain")
    verdict = last.verdict
    assert verdict is not None
    asked = over_before(last, s.history.retried_at)
    if verdict.outcome is Outcome.DONE and not (asked and verdict.assumed):
        return LeaveAlone(f"the chain is done: {verdict.sentence}")
    if not s.settings.recovery.enabled:
        if asked:
            return _limits(s) or _resubmit(s, "a person asked for it")
        return Rest(
            f"{verdict.sentence}; recovery is off for this chain",
            f"`chainwatch retry {s.history.chain}` submits the next job; recovery: true lets chainwatch do it.",
        )
    if asked:
        return _limits(s) or _incident(s) or _resubmit(s, "a person asked for it")
    return _told(
        s,
        _needs_a_person(s, verdict)
        or _limits(s)
        or _incident(s)
        or drains.stop(s.history, s.now, s.settings.recovery.nodes.exclude_for)
        or _cannot_help(s, last, verdict)
        or _budgets(s, last, verdict)
        or _waits(s, last, verdict)
        or _resubmit(s, verdict.sentence),
    )


def _told(s: Situation, decision: Decision) -> Decision:
    """The decision with what people are to hear of it, at the end that brings the matter to its mark."""
    fruitless = budget.count(s.history).fruitless_preemptions
    if fruitless != s.settings.recovery.preemptions_alert or not isinstance(decision, (Wait, Resubmit)):
        return decision
    return replace(
        decision,
        tell=f"preempted {fruitless} times without a new intact checkpoint; from now on submissions are spaced out, and "
        f"after {s.settings.recovery.preemptions_rest} it rests",
    )


def _last(s: Situation) -> Attempt | None:
    attempts = budget.judged(s.history.attempts)
    return attempts[-1] if attempts else None


def _needs_a_person(s: Situation, verdict: Verdict) -> Decision | None:
    chain = s.history.chain
    if verdict.cause is Cause.CANCELLED_BY_OTHER:
        return Rest(
            f"{verdict.sentence}: chainwatch never undoes what an operator did",
            f"ask them why; then `chainwatch retry {chain}`, or `chainwatch stop {chain}`.",
        )
    if verdict.cause is Cause.CANCELLED_BY_USER:
        return Rest(
            f"{verdict.sentence}: somebody wanted it to end",
            f"`chainwatch retry {chain}` goes on; `chainwatch stop {chain}` ends the chain.",
        )
    if verdict.outcome is Outcome.CANCELLED:
        return Rest(
            f"{verdict.sentence}; somebody cancelled it, whatever it had before",
            _advice(verdict, f"`chainwatch retry {chain}` goes on; `chainwatch stop {chain}` ends the chain."),
        )
    if verdict.cause is Cause.COMPLETED:
        return Rest(
            f"{verdict.sentence}; it looks finished, but no configured rule proves it",
            f"`chainwatch done {chain}` if it is finished, `chainwatch retry {chain}` if not; a `done:` rule decides "
            "it next time.",
        )
    return None


def _limits(s: Situation) -> Decision | None:
    caps, history = s.settings.caps, s.history
    raise_it = f"raise it in the configuration, then `chainwatch retry {history.chain}`."
    if caps.attempts is not None and len(history.attempts) >= caps.attempts:
        return Rest(f"the cap of {caps.attempts} attempts is reached", raise_it)
    if caps.gpu_hours is not None and history.gpu_hours >= caps.gpu_hours:
        return Rest(f"{history.gpu_hours:.1f} GPU-hours were used, the cap is {caps.gpu_hours:g}", raise_it)
    if caps.until is not None:
        until = caps.until if caps.until.tzinfo else caps.until.astimezone(UTC)
        if s.now >= until:
            return Rest(f"the end date {caps.until:%Y-%m-%d %H:%M} has passed", raise_it)
    most = s.submissions_per_hour
    if most is not None and history.submissions_last_hour >= most:
        return Wait(
            s.now + timedelta(minutes=5),
            f"{history.submissions_last_hour} jobs were submitted in the last hour, and {most} is the most "
            "(submissions_per_hour, the configuration's or the site's)",
        )
    return None


def _incident(s: Situation) -> Decision | None:
    """Held back while it lasts; afterwards each chain has its own moment to return."""
    if s.history.incident:
        return Wait(s.now + _LATER, f"part of an incident of the cluster: {s.history.incident}")
    if s.history.incident_over is not None:
        turn = backoff.turn(s.history.chain, s.history.incident_over, s.history.incident_chains)
        if s.now < turn:
            return Wait(
                turn, f"the incident is over; its chains return one after the other, this one at {turn:%H:%M:%S} UTC"
            )
    return None


def _cannot_help(s: Situation, last: Attempt, verdict: Verdict) -> Decision | None:
    policy = s.settings.recovery
    if s.history.cohort_stopped:
        return Stop(
            s.history.cohort_stopped,
            _advice(verdict, f"mend it once, then `chainwatch retry --cohort {s.history.chain}`."),
            told=True,
        )
    if verdict.cause is Cause.CHECKPOINT_CORRUPT:
        return None  # an older checkpoint helps; see `resume.choose`
    if verdict.cause is Cause.NUMERIC and policy.numeric_rollback and not _rolled_back(s):
        return None
    if verdict.cause is Cause.NUMERIC:
        return _diverged(s, last, verdict)
    if verdict.retry is Retry.NO:
        return Stop(
            verdict.sentence,
            _advice(verdict, f"mend it, then `chainwatch retry {s.history.chain}`."),
        )
    passes = verdict.retry is Retry.WAIT  # an outage: it looks the same until it is over
    if verdict.outcome is Outcome.FAILED and not passes and budget.quick_twice(policy, budget.window(s.history)):
        return _without_the_checkpoint(s, last, verdict) or Stop(
            f"failed the same way twice within {_short(policy.quick_failure)} of the start, at the same "
            f"place: {verdict.sentence}",
            _advice(verdict, f"a third try would fail too: mend it, then `chainwatch retry {s.history.chain}`."),
        )
    return None


def _diverged(s: Situation, last: Attempt, verdict: Verdict) -> Stop:
    """NaN, and the configuration does not allow to go back, or that was done: which checkpoint predates it is told."""
    retry = f"mend it, then `chainwatch retry {s.history.chain}`"
    if s.settings.checkpoints is None or s.checkpoints is None:
        return Stop(verdict.sentence, _advice(verdict, f"{retry}."))
    again = "it did so again after a rollback; " if _rolled_back(s) else ""
    before = avoid.predating(last, s.checkpoints)
    if before is None:
        return Stop(f"{verdict.sentence}; {again}no intact checkpoint predates it", _advice(verdict, f"{retry}."))
    name = resume.name_of(before)
    return Stop(
        f"{verdict.sentence}; {again}the newest intact checkpoint that predates it is {name}",
        _advice(verdict, f"{retry}, which resumes from {name}."),
    )


def _without_the_checkpoint(s: Situation, last: Attempt, verdict: Verdict) -> Decision | None:
    """Every job that loads the newest checkpoint crashes: it is left for the one before it, once, and that is told."""
    if avoid.crashed_every_job(s.settings.recovery, s.history) is not last:
        return None
    left = last_part(str(last.resumed_from))
    why = f"{verdict.sentence}; every job that loaded {left} ended so, so the one before it is tried, once"
    decision = _resubmit(s, why)
    if isinstance(decision, Wait):
        return decision
    older = isinstance(decision, Resubmit) and isinstance(decision.resume, FromCheckpoint)
    return replace(decision, tell=why) if isinstance(decision, Resubmit) and older else None


def _budgets(s: Situation, last: Attempt, verdict: Verdict) -> Decision | None:
    policy, spent = s.settings.recovery, budget.count(s.history)
    retry = f"`chainwatch explain {s.history.chain}` shows the evidence; `chainwatch retry {s.history.chain}` goes on."
    if s.settings.checkpoints is None:
        retry = f"name where it saves under `checkpoints:`, since without it no saved progress is known; {retry}"
    if spent.fruitless_preemptions >= policy.preemptions_rest:
        return Rest(
            f"preempted {spent.fruitless_preemptions} times without one new intact checkpoint",
            f"save more often, or use a queue that is preempted less; {retry}",
        )
    if verdict.fingerprint and spent.same_failure > policy.retries_per_failure:
        without = _without_the_checkpoint(s, last, verdict)
        if without is not None:
            return without
        return Rest(
            f"the same failure {spent.same_failure} times without saved progress: {verdict.sentence}",
            _at_rest(verdict, retry),
        )
    if spent.spent > policy.retries:
        return Rest(
            f"{spent.spent} failovers without saved progress, the budget is {policy.retries}; last: {verdict.sentence}",
            _at_rest(verdict, retry),
        )
    return None


def _waits(s: Situation, last: Attempt, verdict: Verdict) -> Decision | None:
    policy, spent = s.settings.recovery, budget.count(s.history)
    fraction = backoff.jitter(s.history.chain, last.number)
    pause = backoff.wait_after(verdict.cause, spent.spent, policy, fraction)
    why = f"{verdict.sentence}; waits before the next try"
    if verdict.retry is Retry.WAIT and not pause:
        pause = backoff.wait_after(Cause.STORAGE, spent.spent, policy, fraction)
    if spent.fruitless_preemptions >= policy.preemptions_alert:
        pause = backoff.space_out(spent.fruitless_preemptions, policy, fraction)
        why = f"preempted {spent.fruitless_preemptions} times without a new intact checkpoint; spaced out"
    ended = last.ended or s.now
    until = ended + pause
    if until <= s.now and s.storage and verdict.cause is Cause.STORAGE and s.now - ended < STORAGE_BOUND:
        why = f"{verdict.sentence}; its storage does not work yet: {s.storage}"
        return Wait(s.now + _LATER, why, needs_person=s.now - ended > WRITER_PATIENCE)
    return Wait(until, why) if until > s.now else None


def _resubmit(s: Situation, why: str) -> Decision:
    last = _last(s)
    choice = resume.choose(s.settings, s.checkpoints, s.history)
    if isinstance(choice, resume.Nothing):
        return Stop(f"{why}; {choice.why}" if why else choice.why, choice.advice)
    if isinstance(choice, resume.NotYet):
        long = last is not None and last.ended is not None and s.now - last.ended > WRITER_PATIENCE
        return Wait(s.now + _LATER, choice.why, needs_person=long)
    exclude = nodes.to_exclude(s.history, s.settings.recovery.nodes, s.now, s.partition_size, _needed(last))
    extra, told = _extra(s, choice) if last is not None else ((), "")
    numeric = last is not None and last.verdict is not None and last.verdict.cause is Cause.NUMERIC
    note = "which predates the divergence" if numeric and isinstance(choice.resume, FromCheckpoint) else ""
    sentence = "; ".join(x for x in (why, choice.sentence or _scratch(choice), note, told) if x)
    if exclude:
        sentence += f"; keeps away from {', '.join(exclude)}"
    shunned = tuple(sorted(avoid.avoided(s.settings, s.history, s.checkpoints)))
    return Resubmit(choice.resume, sentence, exclude, extra, choice.newer_bad, avoid=shunned)


def _needed(last: Attempt | None) -> int:
    """How many nodes the job before had: so many must be left to the next one."""
    return len(last.job.nodes) if last is not None else 0


def _scratch(choice: resume.Choice) -> str:
    return choice.resume.why if isinstance(choice.resume, FromScratch) else ""


def _extra(s: Situation, choice: resume.Choice) -> tuple[tuple[str, ...], str]:
    """Further sbatch options of a recovery job, the last ones win, and what is to be said of them."""
    policy = s.settings.recovery
    saved = choice.resume.checkpoint.step if isinstance(choice.resume, FromCheckpoint) else 0
    target = s.settings.done.step or s.target
    extra: tuple[str, ...] = ()
    notes: list[str] = []
    limit = fitted(budget.judged(s.history.attempts), saved, target, policy.fit_time)
    if limit is not None:
        minutes = int(limit / timedelta(minutes=1))
        extra = (f"--time={minutes}",)
        notes.append(f"asks for {minutes} minutes, which is enough for what is left up to step {target}")
    extra = (*extra, *policy.sbatch)
    if policy.fallback_sbatch and _preempted_in_vain(s):
        extra = (*extra, *policy.fallback_sbatch)
        notes.append(
            f"with the fallback options, since the last {policy.fallback_after} preemptions each cost more time than they "
            "left saved"
        )
    return extra, "; ".join(notes)


def _preempted_in_vain(s: Situation) -> bool:
    every = budget.judged(s.history.attempts)
    last = every[-s.settings.recovery.fallback_after :]
    return len(last) == s.settings.recovery.fallback_after and all(
        a.verdict is not None and a.verdict.cause is Cause.PREEMPTION and cost_more_than_it_computed(a, every)
        for a in last
    )


def _rolled_back(s: Situation) -> bool:
    earlier = budget.window(s.history)[:-1]
    return any(a.verdict is not None and a.verdict.cause is Cause.NUMERIC for a in earlier)


def _at_rest(verdict: Verdict, retry: str) -> str:
    """What a person should do where retries were in vain, though each by itself was right."""
    if verdict.cause is Cause.TIME_LIMIT:
        return f"no job reached its next save within its time limit: save more often, or ask for more time; {retry}"
    if verdict.culprit_nodes:
        named = ", ".join(verdict.culprit_nodes)
        return f"report {named} to the site's support, and look whether the job itself brings nodes down; {retry}"
    return _advice(verdict, retry)


def _advice(verdict: Verdict, then: str) -> str:
    advice, bare = verdict.advice.rstrip(". "), "`chainwatch retry`"
    _, once, command = then.rpartition("mend it, then ")
    if once and advice.endswith(f", then {bare}"):  # it says what to mend: the same once, with the chain's name
        return advice.removesuffix(bare) + command
    return f"{advice}; {then}" if advice else then


def _short(span: timedelta) -> str:
    minutes = span.total_seconds() / 60
    return f"{minutes:g} min"
