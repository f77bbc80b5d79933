"""Answers that are missing, empty or late: nothing is concluded from them, and nothing waits for ever in silence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from chainwatch.simulation import TrainingFault, Trouble
from tests.bugs.catalogue import plays
from tests.bugs.clients import Row, says
from tests.bugs.play import DAY, LONG, Cause, ChainPlan, ChainState, Play

Stage = Callable[..., Play]
CRASHES = ChainPlan(faults=(TrainingFault(Trouble.NETWORK, step=1500, times=1),))
TIMED_OUT = "slurm_load_jobs error: Socket timed out on send/recv operation\n"


def forgotten(row: Row) -> None:
    """Accounting has its header, and no row."""
    del row


@plays("snakemake-executor-plugin-slurm#12")
@pytest.mark.parametrize("empty", ["no row", "no header"])
def test_an_empty_accounting_is_no_answer_and_people_hear_of_it_before_long(play: Stage, empty: str) -> None:
    on = play(CRASHES, min_job_age=1.0)
    on.running()
    if empty == "no row":
        on.clients.edits["sacct"] = forgotten  # type: ignore[assignment]
    else:
        on.clients.instead["sacct"] = says("")
    on.until(lambda: not on.live("run0"), "the job ends")
    on.go(LONG)
    assert len(on.submitted()) == 1, "nothing is concluded"
    assert on.alerts("vanished"), "and somebody is told"
    assert on.is_(ChainState.WAITING), "nobody checks for hours: it is said to wait, until when and for what"
    assert on.record().wait_until is not None
    assert "left the queue" in on.record().sentence
    on.clients.edits.clear()
    on.clients.instead.clear()
    on.finishes()
    assert on.causes() == [Cause.NETWORK_FABRIC, Cause.COMPLETED]


@plays("snakemake-executor-plugin-slurm#336")
def test_a_site_without_accounting_is_looked_after_by_its_queue_alone(play: Stage) -> None:
    on = play(CRASHES, accounting=False)
    on.finishes()
    assert on.causes() == [Cause.NETWORK_FABRIC, Cause.COMPLETED]
    assert len(on.submitted()) == 2
    assert not any(word.startswith(("-M", "--clusters")) for call in on.clients.calls for word in call)
    assert len(on.clients.lines("sacct")) <= 2, "nobody goes on asking for what the site does not keep"
    for attempt in on.attempts():
        assert attempt.verdict is not None
        assert any("the site keeps no accounting" in sentence for sentence in attempt.verdict.weaker)
        assert not any("did not answer" in sentence for sentence in attempt.verdict.weaker)


@plays("Parsl/parsl#1588")
def test_a_job_that_left_the_controllers_memory_is_asked_of_accounting_and_of_nobody_by_its_id(play: Stage) -> None:
    on = play(CRASHES, min_job_age=1.0, purge_period=1.0)
    on.finishes()
    assert on.causes() == [Cause.NETWORK_FABRIC, Cause.COMPLETED]
    assert not any(word.startswith(("-j", "--job")) for call in on.clients.lines("squeue") for word in call)


@plays("Parsl/parsl#1588")
def test_invalid_job_id_ends_nothing_by_itself(play: Stage) -> None:
    on = play()
    on.running()
    on.clients.instead["squeue"] = says(stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    on.go(1200)
    assert on.is_(ChainState.RUNNING)
    on.clients.instead.clear()
    on.finishes()
    assert len(on.submitted()) == 1


@plays("llnl/maestrowf#264", "llnl/maestrowf#266", "llnl/maestrowf#405")
def test_a_job_that_was_completing_and_is_gone_is_judged_by_accounting(play: Stage) -> None:
    on = play(CRASHES, completing=70.0, min_job_age=1.0, purge_period=1.0)
    on.until(lambda: "completing" in on.record().sentence, "it is seen completing")
    on.until(lambda: on.causes(), "it is judged", 600)
    assert on.attempts()[0].job.raw_state == "FAILED"
    on.finishes()
    assert len(on.submitted()) == 2


@plays("NVIDIA/Model-Optimizer#1900")
def test_a_mark_that_proves_it_done_counts_where_accounting_was_purged(play: Stage) -> None:
    on = play(min_job_age=1.0)
    on.running()
    on.supervisor = None  # the daemon is away
    on.clients.edits["sacct"] = forgotten  # type: ignore[assignment]
    on.clock.advance(30 * DAY)
    assert on.tale().disk.finished
    on.until(lambda: on.is_(ChainState.DONE), "it is known to be done", LONG)
    assert len(on.submitted()) == 1
    assert on.alerts("done")


@plays("NVIDIA/Model-Optimizer#1900")
def test_a_query_that_failed_is_not_the_answer_that_there_is_no_such_job(play: Stage) -> None:
    on = play(CRASHES, min_job_age=1.0)
    on.running()
    on.clients.instead["sacct"] = says(stderr="sacct: error: Problem talking to the database\n", code=1)
    on.until(lambda: not on.live("run0"), "the job ends")
    on.go(LONG)
    assert len(on.submitted()) == 1
    on.clients.instead.clear()
    on.finishes()
    assert len(on.submitted()) == 2


@plays("skypilot-org/skypilot#10458")
@pytest.mark.parametrize("sacct", [None, forgotten], ids=["sacct-knows", "sacct-empty-too"])
def test_one_empty_round_makes_nothing_of_a_job_that_runs(play: Stage, sacct: object) -> None:
    on = play()
    on.running()
    on.clients.edits["squeue"] = lambda row: None
    if sacct is not None:
        on.clients.edits["sacct"] = sacct  # type: ignore[assignment]
    on._step(lambda world: None)
    on._step(lambda world: None)
    on.clients.edits.clear()
    on.go(300)
    assert on.is_(ChainState.RUNNING)
    on.finishes()
    assert len(on.submitted()) == 1
    assert len(on.attempts()) == 1


@plays("nextflow-io/nextflow#2696")
def test_a_time_out_now_and_then_changes_nothing_and_many_in_a_row_are_spaced_out(play: Stage) -> None:
    on = play()
    on.running()
    before = on.record().sentence
    on.clients.instead["squeue"] = says(stderr=TIMED_OUT, code=1)
    asked = len(on.clients.lines("squeue"))
    on.go(LONG)
    assert on.record().sentence == before
    assert len(on.clients.lines("squeue")) - asked < 30, "backed off"
    assert on.alerts("blind"), "and told"
    on.clients.instead.clear()
    on.finishes()
    assert len(on.submitted()) == 1


@plays("reframe-hpc/reframe#283", "reframe-hpc/reframe#3642")
def test_one_squeue_a_poll_whatever_the_number_of_chains(play: Stage) -> None:
    on = play(*[ChainPlan(faults=CRASHES.faults) for _ in range(6)])
    polls = 0

    def count() -> bool:
        nonlocal polls
        polls += 1
        return all(on.is_(ChainState.DONE, name) for name in on.tales)

    on.until(count, "all are done", 2 * DAY)
    assert len(on.clients.lines("squeue")) <= polls + 2
    assert len(on.clients.lines("sacct")) < polls
    assert all(len(on.submitted(name)) == 2 for name in on.tales)
    assert on.supervisor is not None
    assert on.supervisor.pause() >= timedelta(seconds=50)
