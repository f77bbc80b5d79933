"""Words of states, as they are printed and as they are meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chainwatch.simulation import OnTerm, TrainingFault, Trouble
from tests.bugs.catalogue import plays
from tests.bugs.clients import Row
from tests.bugs.play import DAY, LONG, Cause, ChainPlan, ChainState, Play

Stage = Callable[..., Play]
CRASH_ONCE = TrainingFault(Trouble.NETWORK, step=1500, times=1)


def word(state: str, of: str = "FAILED") -> Callable[[Row], Row]:
    """Prints another word for a state, in rows of jobs and not of steps."""

    def edit(row: Row) -> Row:
        is_job = row.get("JobIDRaw", row.get("JobID", "")).isdigit()
        return row | ({"State": state} if is_job and row["State"].split()[0] == of else {})

    return edit


@plays("Snakemake-Profiles/slurm#22")
@pytest.mark.parametrize(("by", "cause"), [("ada", Cause.CANCELLED_BY_USER), ("root", Cause.CANCELLED_BY_OTHER)])
def test_cancelled_by_somebody_is_cancelled_and_rests(play: Stage, by: str, cause: Cause) -> None:
    on = play(min_job_age=1.0)
    job = on.running()
    on.cluster.cancel(job.job_id, by)
    on.until(lambda: on.is_(ChainState.RESTING), "the chain rests", 1800)
    on.go(LONG)
    assert on.causes() == [cause]
    assert on.submitted() == [job.job_id]
    assert len(on.alerts("resting")) == 1


@plays("Snakemake-Profiles/slurm#22")
def test_a_state_cut_with_a_plus_is_still_that_state(play: Stage) -> None:
    on = play(min_job_age=1.0)
    on.clients.edits["sacct"] = word("CANCELLED+", of="CANCELLED")
    on.cluster.cancel(on.running().job_id)
    on.until(lambda: on.is_(ChainState.RESTING), "the chain rests", 1800)
    assert on.causes()[0].value.startswith("cancelled")
    assert len(on.submitted()) == 1


@plays("snakemake-executor-plugin-slurm#109")
@pytest.mark.parametrize("release", ["22.05.8", "24.11.5"])
def test_a_preempted_job_that_slurm_requeues_is_left_to_slurm(play: Stage, release: str) -> None:
    on = play(ChainPlan(qos="requeue", on_term=OnTerm.IGNORE), release=release)
    job = on.running()
    on.cluster.preempt(job.job_id)
    on.finishes()
    assert on.submitted() == [job.job_id], "one job, run twice by Slurm itself"
    assert on.causes() == [Cause.PREEMPTION, Cause.COMPLETED]
    assert on.never_bad()


@plays("snakemake-executor-plugin-slurm#132", "tgen/jetstream#121", "tgen/jetstream#137")
@pytest.mark.parametrize("returns", [True, False], ids=["requeue", "no-requeue"])
def test_a_lost_node_is_an_end_only_where_slurm_does_not_bring_the_job_back(play: Stage, returns: bool) -> None:
    on = play(ChainPlan(no_requeue=not returns))
    job = on.running()
    on.cluster.kill_node(job.nodes[0], power=True)
    on.finishes()
    assert len(on.submitted()) == (1 if returns else 2)
    assert on.causes() == [Cause.HARDWARE_NODE, Cause.COMPLETED]
    assert on.never_bad()


@plays("NVIDIA-NeMo/DataDesigner#913")
def test_preempted_and_gone_is_an_end_and_a_long_queue_is_none(play: Stage) -> None:
    on = play(min_job_age=1.0, release="24.11.5")
    first = on.running()
    on.cluster.occupy(4, 14 * LONG)  # takes its node, and all others
    on.until(lambda: len(on.submitted()) == 2, "the successor is submitted", 1800)
    on.go(12 * LONG)
    assert on.is_(ChainState.PENDING)
    assert on.cancelled() == []
    assert on.submitted() == [first.job_id, first.job_id + 2]
    on.finishes()
    assert on.causes() == [Cause.PREEMPTION, Cause.COMPLETED]


@plays("virtualcell/vcell#1915")
@pytest.mark.parametrize(
    ("state", "cause", "goes_on"),
    [
        ("TIMEOUT", Cause.TIME_LIMIT, True),
        ("OUT_OF_MEMORY", Cause.OOM_HOST, False),
        ("NODE_FAIL", Cause.HARDWARE_NODE, True),
        ("PREEMPTED", Cause.PREEMPTION, True),
        ("BOOT_FAIL", Cause.HARDWARE_NODE, True),
        ("DEADLINE", Cause.TIME_LIMIT, False),
    ],
)
def test_every_terminal_word_is_an_end_whatever_its_steps_say(
    play: Stage, state: str, cause: Cause, goes_on: bool
) -> None:
    on = play(ChainPlan(faults=(TrainingFault(Trouble.NETWORK, step=1000, times=1),)))

    def edit(row: Row) -> Row:
        first = row.get("JobIDRaw", row.get("JobID")) == "1"
        return word(state)(row) | ({"Reason": "None"} if first else {})

    on.tale().disk.logs.clear()
    on.clients.edits = {"squeue": edit, "sacct": edit}
    _silence_the_log(on)
    if goes_on:
        on.finishes()
        assert on.causes() == [cause, Cause.COMPLETED]
        assert on.never_bad()
    else:
        on.until(lambda: on.record().state in {ChainState.STOPPED, ChainState.RESTING}, "a person is asked")
        on.go(LONG)
        assert on.causes() == [cause]
        assert len(on.submitted()) == 1
        assert on.alerts("stopped") or on.alerts("resting")


@plays("Parsl/parsl#2255")
def test_short_words_of_states_mean_what_the_long_ones_mean(play: Stage) -> None:
    short = {"RUNNING": "R", "PENDING": "PD", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F"}
    on = play(ChainPlan(faults=(CRASH_ONCE,)))
    on.clients.edits["squeue"] = lambda row: row | {"State": short.get(row["State"], row["State"])}
    on.finishes()
    assert len(on.submitted()) == 2
    assert on.causes() == [Cause.NETWORK_FABRIC, Cause.COMPLETED]


@plays("Parsl/parsl#2255")
def test_a_state_that_nobody_knows_yet_is_watched_and_never_taken_for_absent(play: Stage) -> None:
    on = play(min_job_age=1.0)
    on.running()
    on.clients.edits["squeue"] = lambda row: row | {"State": "MIGRATING"}
    on.go(1200)
    assert len(on.submitted()) == 1
    assert not on.record().state.quiet
    del on.clients.edits["squeue"]
    on.finishes()
    assert len(on.submitted()) == 1


@plays("nextflow-io/nextflow#5298")
def test_a_node_that_fails_at_the_start_is_an_end_of_its_own_and_is_retried_elsewhere(play: Stage) -> None:
    on = play(ChainPlan(no_requeue=True))
    on.until(lambda: on.live("run0") and on.live("run0")[0].nodes, "it starts")
    job = on.live("run0")[0]
    on.clients.edits["squeue"] = lambda row: row | ({"State": "NF"} if row["State"] == "NODE_FAIL" else {})
    on.cluster.set_down(job.nodes[0], "no boot")
    on.finishes()
    assert on.causes() == [Cause.HARDWARE_NODE, Cause.COMPLETED]
    assert any(word == f"--exclude={job.nodes[0]}" for word in on.clients.lines("sbatch")[-1])


@plays("michellab/a3fe#14")
def test_ended_jobs_that_squeue_still_lists_hold_nothing_up(play: Stage) -> None:
    on = play(ChainPlan(faults=(CRASH_ONCE,)), min_job_age=10 * DAY)
    on.until(lambda: len(on.submitted()) == 2, "the successor is submitted")
    ended = next(j for j in on.cluster.jobs if j.job_id == 1)
    assert ended.end is not None
    assert on.clock.time - ended.end < 600
    on.finishes()
    assert on.record().state is ChainState.DONE
    assert len(on.submitted()) == 2


def _silence_the_log(on: Play) -> None:
    """The training says nothing when it dies: Slurm's words alone count."""
    write = on.tale().disk.write
    on.tale().disk.write = lambda path, line, writer: None if "Error" in line else write(path, line, writer)  # type: ignore[method-assign]
