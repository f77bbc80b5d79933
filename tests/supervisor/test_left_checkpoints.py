"""A checkpoint that is left behind is left by everything that the next job looks at, until that job has begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.actions import resume_file
from chainwatch.actions.compose import AVOID
from chainwatch.model.chain import ChainState
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.verdict import Cause, Finding, Line, LogEvidence, Retry
from chainwatch.simulation import batch
from chainwatch.slurm.backend import Submission
from tests.supervisor.play import Play

ALONE = ["--cpus-per-task=8"]


def lies_there(play: Play, *steps: int) -> None:
    made = tuple(Checkpoint(f"/home/ada/run/step{step}", step, "deepspeed", Status.INTACT, "") for step in steps)
    play.files.report = RunReport("/home/ada/run", "deepspeed", made, made[-1])


def submitted(play: Play) -> list[Submission]:
    return [s for (s,) in play.calls("submit") if isinstance(s, Submission)]


def handed(play: Play, name: str = "a") -> str:
    return Path(resume_file.path_of(play.house.state, name)).read_text().strip()


def test_a_job_that_waits_in_the_queue_is_not_handed_the_checkpoint_that_crashed_the_others(play: Play) -> None:
    lies_there(play, 10, 20)
    play.chain("a", batch(60, 1), checkpoints="/home/ada/run", sbatch=["--job-name=a", *ALONE])
    play.submit("a")
    play.until(lambda: len(submitted(play)) == 2)
    assert handed(play) == "/home/ada/run/step20"
    play.lab.cluster.occupy(len(play.settings.nodes), 7200)
    play.until(lambda: len(submitted(play)) == 3)
    assert dict(submitted(play)[-1].environment)[AVOID] == "/home/ada/run/step20"
    play.passes(5)
    assert play.state("a") is ChainState.PENDING
    assert handed(play) == "/home/ada/run/step10", "and it stays so for as long as the job waits"
    [told] = [n for n in play.store.undelivered() if n.key.startswith("a:tell")]
    assert "the one before it is tried, once" in str(told.body)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_rollback_reaches_the_job(play: Play, allowed: bool) -> None:
    lies_there(play, 10, 20)
    line = Line("/home/ada/log", 9, "AssertionError: loss is nan, stop training")
    play.files.logs = LogEvidence(findings=(Finding("numeric/nan-abort", Cause.NUMERIC, 82, line, 9, retry=Retry.NO),))
    play.chain(
        "a", batch(900, 1), checkpoints="/home/ada/run", recovery={"numeric_rollback": allowed, "backoff": "1s"}
    )  # fmt: skip
    play.submit("a")
    play.until(lambda: len(submitted(play)) == 2 or play.state("a") is ChainState.STOPPED)
    if allowed:
        assert dict(submitted(play)[-1].environment)[AVOID] == "/home/ada/run/step20"
        assert handed(play) == "/home/ada/run/step10"
    else:
        assert "the newest intact checkpoint that predates it is step10" in play.record("a").sentence
        play.store.update_chain("a", retried_at=play.clock.now())
        play.until(lambda: len(submitted(play)) == 2)
        play.passes(2)
        assert handed(play) == "/home/ada/run/step10", "what was said is what a retry does"
