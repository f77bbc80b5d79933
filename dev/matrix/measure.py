"""What a release gives less of, measured: so that what `chainwatch.slurm.weaker` says of it is no hearsay."""

from __future__ import annotations

from collections.abc import Iterator

from chainwatch.model.job import ExitCode, JobState
from chainwatch.slurm.contract import Program, submission
from chainwatch.slurm.contract.look import ended, recorded, under_way
from chainwatch.slurm.weaker import Weakness
from dev.slurm.stage import RealStage


def weaknesses(stage: RealStage) -> tuple[Weakness, ...]:
    """What this cluster gives less of, in the order of `Weakness`."""
    found = set(_measured(stage))
    return tuple(weakness for weakness in Weakness if weakness in found)


def _measured(stage: RealStage) -> Iterator[Weakness]:
    code = stage.backend.submit(submission(stage, Program(code=137)))
    step = Program(seconds=300, in_step=True, on=(("TERM", 1),))
    graced = stage.backend.submit(submission(stage, step, *stage.preemptable(requeue=False)))
    under_way(stage, graced)
    stage.preempt(graced)
    row = stage.wait_until(lambda: recorded(stage, code), 90, "the first job ended")
    if row.exit != ExitCode(137):
        yield Weakness.CODES_CUT
    stage.wait_until(lambda: ended(stage, graced), 90, "the preempted job ended")
    row = stage.wait_until(lambda: recorded(stage, graced), 30, "accounting has the end")
    if row.state is not JobState.PREEMPTED:
        yield Weakness.GRACE_HIDES_PREEMPTION
    if row.restarts is None:
        yield Weakness.NO_RESTARTS
