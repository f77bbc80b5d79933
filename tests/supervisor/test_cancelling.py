"""Our own jobs that are cancelled: of each of them it is remembered that it was us."""

from __future__ import annotations

from chainwatch.actions.tag import Tag, new_token, short_instance
from chainwatch.model.job import JobState
from chainwatch.simulation import batch
from chainwatch.slurm.backend import Submission
from tests.supervisor.play import Play


def test_of_two_doubles_that_are_cancelled_in_one_pass_both_are_remembered(play: Play) -> None:
    """The kind: a note written over one that was made since the record was read."""
    play.chain("one", batch(None))
    play.submit("one")
    doubles = []
    for _ in range(2):
        tag = Tag(short_instance(play.store.instance), "one", new_token())
        options = ("--job-name=one", "--hold", f"--comment={tag}")
        doubles.append(play.backend.submit(Submission("/home/ada/one.sh", (), options, "/home/ada")))
    play.passes(2)
    ended = [job for job in play.backend.accounting(doubles) if job.state is JobState.CANCELLED]
    assert [job.job_id for job in ended] == doubles
    assert {str(job.attempt) for job in ended} <= set(play.record("one").facts["ended_by_us"])
