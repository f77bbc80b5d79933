"""The night that this was made for: a save that a preemption tore, the job that died of it, and what is said of both."""

from __future__ import annotations

from collections.abc import Callable

from chainwatch.config.models import HandOver
from chainwatch.model.verdict import Retry
from tests.bugs.play import DAY, Cause, ChainPlan, Play

Stage = Callable[..., Play]
MID_SAVE = 2030.0
"""Seconds after the beginning: the third save of a first job is half done."""


def test_the_job_that_died_of_a_torn_checkpoint_names_the_one_that_tore_it_with_its_lines(play: Stage) -> None:
    """The site resubmits at once, and the script picks the highest number by itself."""
    plan = ChainPlan(
        hand_over=HandOver.SET_ASIDE, site_delay=5.0, site_minds_cancelled=False, final_step=6000, no_requeue=True
    )
    on = play(plan, release="24.11.5")
    on.clock.after(MID_SAVE, lambda: on.cluster.preempt(on.live("run0")[0].job_id))
    on.until(lambda: Cause.CHECKPOINT_CORRUPT in on.causes(), "the next job died of it", DAY)
    torn, died = on.attempts()[:2]
    assert died.verdict is not None
    assert torn.job.preempted_at is not None
    assert died.verdict.retry is Retry.NO, "the same again would die again"
    assert (
        f"checkpoint-900 was torn by attempt 1 (job 1), which was preempted at {torn.job.preempted_at:%H:%M:%S} UTC"
        in (died.verdict.sentence)
    )
    [side] = [line.text for line in died.verdict.evidence if line.source.endswith("checkpoint-900")]
    assert f"PreemptTime {torn.job.preempted_at:%Y-%m-%d %H:%M:%S} UTC" in side
    assert "last write" in side
    on.finishes()
    assert len(on.causes()) == 3, "one damaged checkpoint costs one job"
