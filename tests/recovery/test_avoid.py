"""Checkpoints that look intact and that the next job keeps away from: who condemns them, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.model.chain import Attempt, FromCheckpoint, FromScratch, Rest, Resubmit, Stop, Wait
from chainwatch.model.checkpoint import Checkpoint, Status
from chainwatch.model.verdict import Cause, Outcome
from chainwatch.recovery import Situation, decide, decide_ahead
from chainwatch.recovery.avoid import avoided, may_condemn
from tests.recovery.build import NOW, checkpoint, ended, report, situation

TEN, TWENTY = "/run/global_step10", "/run/global_step20"
SAVED = ended(Cause.PREEMPTION, saved=20, before=10, ago=700, resumed=TEN)
"""The attempt that left the checkpoint: every real history begins with one."""


def from_step(s: Situation) -> int | None:
    decision = decide(s)
    assert isinstance(decision, Resubmit), decision
    assert isinstance(decision.resume, FromCheckpoint), decision
    return decision.resume.checkpoint.step


def written(step: int, minutes_ago: float) -> Checkpoint:
    return checkpoint(step)._replace(modified=(NOW - timedelta(minutes=minutes_ago)).timestamp())


def crash(ago: float, resumed: str = TWENTY, minutes: float = 60, cause: Cause = Cause.UNKNOWN) -> Attempt:
    return ended(cause, before=20, ago=ago, resumed=resumed, minutes=minutes, step=22)


# -- one that loads and crashes each time


def test_a_checkpoint_that_crashes_each_job_is_left_for_the_one_before_whoever_saved_it() -> None:
    found = report(checkpoint(10), checkpoint(20))
    past = [SAVED, crash(500), crash(400)]
    assert from_step(situation(*past, found=found)) == 20
    left = decide(situation(*past, crash(300), found=found))
    assert isinstance(left, Resubmit)
    assert isinstance(left.resume, FromCheckpoint)
    assert left.resume.checkpoint.step == 10
    assert left.avoid == (TWENTY,), "the job's own `chainwatch latest` hears of it"
    assert "every job that loaded global_step20 ended so, so the one before it is tried, once" in left.tell


def test_two_crashes_in_the_first_minutes_leave_it_too_before_the_chain_is_stopped() -> None:
    found = report(checkpoint(10), checkpoint(20))
    quick = [SAVED, crash(500, minutes=2), crash(400, minutes=2)]
    left = decide(situation(*quick, found=found))
    assert isinstance(left, Resubmit)
    assert left.avoid == (TWENTY,)
    assert left.tell
    stopped = decide(situation(*quick, crash(300, TEN, minutes=2), found=found))
    assert isinstance(stopped, Stop), "once"
    assert "failed the same way twice" in stopped.why


def test_it_is_left_once_whatever_the_job_from_the_one_before_ends_of() -> None:
    found = report(checkpoint(9), checkpoint(10), checkpoint(20))
    past = [SAVED, crash(500), crash(400), crash(300)]
    preempted = ended(Cause.PREEMPTION, before=20, ago=200, resumed=TEN)
    assert from_step(situation(*past, preempted, found=found)) == 10, "it stays left while nothing new was saved"
    assert isinstance(decide(situation(*past, crash(200, TEN), found=found)), Rest)


def test_silent_storage_is_waited_for_before_a_checkpoint_is_left() -> None:
    assert isinstance(decide(situation(SAVED, crash(500), crash(400), crash(300), found=None)), Wait)


def test_without_one_before_it_the_chain_rests() -> None:
    past = [SAVED, crash(500), crash(400), crash(300)]
    assert isinstance(decide(situation(*past, found=report(checkpoint(20)))), Rest)
    allowed = {"directory": "/run", "from_scratch": "if_none_intact"}
    decision = decide(situation(*past, found=report(checkpoint(20)), checkpoints=allowed))
    assert isinstance(decision, Rest), "nobody begins from scratch for a crash"


@pytest.mark.parametrize("cause", [Cause.HARDWARE_GPU, Cause.NETWORK_FABRIC, Cause.RENDEZVOUS])
def test_what_no_checkpoint_can_be_blamed_for_leaves_none(cause: Cause) -> None:
    past = [SAVED, *(crash(500 - 100 * i, cause=cause) for i in range(3))]
    assert isinstance(decide(situation(*past, found=report(checkpoint(10), checkpoint(20)))), Rest)


# -- one that a job died of while it loaded it


def test_a_condemned_checkpoint_is_good_again_once_it_was_written_anew() -> None:
    died = ended(Cause.CHECKPOINT_CORRUPT, before=20, ago=300, resumed=TWENTY)
    again = ended(Cause.PREEMPTION, before=20, ago=10, resumed=TEN)
    old = report(written(10, 900), written(20, 700))
    new = report(written(10, 900), written(20, 60))
    assert from_step(situation(died, again, found=old)) == 10
    assert from_step(situation(died, again, found=new)) == 20
    decision = decide(situation(died, again, found=new))
    assert isinstance(decision, Resubmit)
    assert decision.avoid == ()


def test_what_is_avoided_is_not_called_damaged_where_nothing_else_is_left() -> None:
    died = ended(Cause.CHECKPOINT_CORRUPT, before=10, ago=300, resumed=TEN)
    decision = decide(situation(died, found=report(checkpoint(10))))
    assert isinstance(decision, Stop)
    assert "1 checkpoint in /run, none that a job should load" in decision.why
    assert "newest: global_step10: intact to the eye, but jobs that loaded it failed" in decision.why


def test_a_standby_is_told_what_not_to_pick() -> None:
    died = ended(Cause.CHECKPOINT_CORRUPT, before=20, ago=300, resumed=TWENTY)
    decision = decide_ahead(situation(died, found=report(checkpoint(10), checkpoint(20))))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromScratch), "it picks when it starts"
    assert decision.avoid == (TWENTY,)


# -- one that does not predate a divergence


def nan(line: str = "loss is nan at step 45", **past: object) -> Attempt:
    given = {"saved": 40, "before": 10, "resumed": TEN, "step": 47} | past
    attempt = ended(Cause.NUMERIC, **given)  # type: ignore[arg-type]
    assert attempt.verdict is not None
    return replace(attempt, verdict=replace(attempt.verdict, outcome=Outcome.FAILED, root_line=line))


MANY = report(*(checkpoint(step) for step in (10, 20, 40, 46)))


def test_nan_stops_the_chain_and_says_which_checkpoint_predates_it() -> None:
    decision = decide(situation(nan(), found=MANY))
    assert isinstance(decision, Stop)
    assert "the newest intact checkpoint that predates it is global_step40" in decision.why
    assert decision.advice.endswith("`chainwatch retry night`, which resumes from global_step40.")


def test_a_persons_retry_after_nan_resumes_from_the_checkpoint_that_was_named() -> None:
    s = situation(nan(), found=MANY)
    assert from_step(replace(s, history=replace(s.history, retried_at=NOW))) == 40


def test_nan_says_so_where_nothing_predates_it() -> None:
    nothing_saved = nan(before=10, saved=None, line="loss is nan")
    decision = decide(situation(nothing_saved, found=report(checkpoint(10), checkpoint(20, Status.DAMAGED))))
    assert isinstance(decision, Stop)
    assert "no intact checkpoint predates it" in decision.why


def test_nothing_is_claimed_of_checkpoints_that_nobody_could_look_at() -> None:
    for s in (situation(nan(), found=None), situation(nan(), found=None, checkpoints=None)):
        decision = decide(s)
        assert isinstance(decision, Stop)
        assert "predates" not in decision.why


def test_a_rollback_passes_over_what_was_saved_after_the_divergence() -> None:
    assert from_step(situation(nan(), found=MANY, recovery={"numeric_rollback": True})) == 40


def test_a_step_of_another_count_does_not_condemn_every_checkpoint() -> None:
    """`iteration 3` of an epoch is no step of the run."""
    s = situation(nan("iteration 3: loss is nan"), found=MANY, recovery={"numeric_rollback": True})
    assert from_step(s) == 46
    s = situation(nan("loss is nan at step 900"), found=MANY, recovery={"numeric_rollback": True})
    assert from_step(s) == 46


def test_a_rollback_leaves_what_the_job_began_from_also_where_only_its_step_is_known() -> None:
    again = nan("loss is nan", before=40, saved=None, resumed=None)
    found = report(checkpoint(20), checkpoint(40))
    assert from_step(situation(again, found=found, recovery={"numeric_rollback": True})) == 20


def test_a_rolled_back_job_that_is_preempted_goes_on_before_the_divergence() -> None:
    at_forty = nan("loss is nan", before=40, saved=None, resumed="/run/global_step40", ago=300)
    preempted = ended(Cause.PREEMPTION, before=40, resumed=TWENTY, ago=10)
    found = report(written(20, 900), written(40, 700))
    rollback = {"numeric_rollback": True}
    assert from_step(situation(at_forty, preempted, found=found, recovery=rollback)) == 20
    anew = report(written(20, 900), written(40, 60))
    assert from_step(situation(at_forty, preempted, found=anew, recovery=rollback)) == 40


def test_a_second_nan_after_the_rollback_stops_and_says_so() -> None:
    first = nan("loss is nan", before=40, saved=None, resumed="/run/global_step40", ago=300)
    second = nan("loss is nan", before=40, saved=None, resumed=TWENTY, ago=10)
    decision = decide(
        situation(first, second, found=report(checkpoint(20), checkpoint(40)), recovery={"numeric_rollback": True})
    )
    assert isinstance(decision, Stop)
    assert "it did so again after a rollback" in decision.why


@pytest.mark.parametrize("resumed", [TEN, None])
def test_what_a_job_began_from_is_good_where_it_saved_more_before_the_divergence(resumed: str | None) -> None:
    unnumbered = Checkpoint("/run/final", None, "deepspeed", Status.DAMAGED, "")
    found = report(unnumbered, checkpoint(10), checkpoint(46))
    assert from_step(situation(nan(resumed=resumed), found=found, recovery={"numeric_rollback": True})) == 10


def test_nan_condemns_nothing_where_nobody_allowed_to_go_back() -> None:
    s = situation(nan(before=40, saved=None, resumed="/run/global_step40"), found=MANY)
    assert avoided(s.settings, s.history, s.checkpoints) == frozenset(), "somebody else's next job is not meddled with"


def test_a_look_at_the_checkpoints_is_worth_it_only_where_the_past_speaks_against_one() -> None:
    def worth(*past: Attempt) -> bool:
        s = situation(*past)
        return may_condemn(s.settings, s.history)

    assert not worth(SAVED)
    assert not worth(SAVED, crash(500))
    assert worth(SAVED, nan())
    assert worth(SAVED, ended(Cause.CHECKPOINT_CORRUPT, before=20, resumed=None))
    assert worth(SAVED, crash(500), crash(400), crash(300))


def test_the_same_is_avoided_whoever_asks() -> None:
    s = situation(SAVED, crash(500), crash(400), crash(300), found=report(checkpoint(10), checkpoint(20)))
    assert avoided(s.settings, s.history, s.checkpoints) == frozenset({TWENTY})
