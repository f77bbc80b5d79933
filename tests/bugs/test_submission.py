"""What sbatch answers, and why a job waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

import pytest

from chainwatch.slurm.process import Reply
from tests.bugs.catalogue import plays
from tests.bugs.clients import Row
from tests.bugs.play import LONG, ChainPlan, ChainState, Play
from tests.slurm.fake import reply

Stage = Callable[..., Play]


@plays("materialsproject/fireworks#358")
@pytest.mark.parametrize("form", ["{id};alpha", "{id}", "Submitted batch job {id} on cluster alpha"])
def test_every_form_of_sbatchs_answer_is_one_job(play: Stage, form: str) -> None:
    on = play()

    def answer(command: Sequence[str]) -> Reply:
        return reply(form.format(id=on.submitted()[-1]) + "\n", command=command)

    on.clients.instead["sbatch"] = answer
    on.finishes()
    assert len(on.clients.lines("sbatch")) == len(on.submitted()) == 1
    assert [a.job.job_id for a in on.attempts()] == on.submitted()


@plays("nextflow-io/nextflow#1151")
def test_a_job_that_an_admin_moves_to_another_partition_is_still_the_same(play: Stage) -> None:
    on = play()
    on.running()
    on.clients.edits = {name: lambda row: row | {"Partition": "cpu_medium"} for name in ("squeue", "sacct")}
    on.finishes()
    assert len(on.submitted()) == len(on.attempts()) == 1
    assert on.attempts()[0].job.partition == "cpu_medium"
    asked = [word for call in on.clients.lines("squeue") + on.clients.lines("sacct") for word in call]
    assert not any(word.startswith(("-p", "--partition")) for word in asked)


@plays("reframe-hpc/reframe#303", "reframe-hpc/reframe#1049", "reframe-hpc/reframe#2411")
def test_a_node_that_is_not_available_now_is_waited_for(play: Stage) -> None:
    reasons = [
        "ReqNodeNotAvail, UnavailableNodes:",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
        "ReqNodeNotAvail, May be reserved for other job",
        "ReqNodeNotAvail",
    ]
    shown = cycle(reasons)
    on = play(ChainPlan(final_step=300))
    on.cluster.occupy(4, 4 * LONG)
    on.clients.edits["squeue"] = lambda row: row | ({"Reason": next(shown)} if row["State"] == "PENDING" else {})
    on.until(lambda: all(on.said(reason) for reason in reasons), "every one was seen", 3 * LONG)
    assert on.is_(ChainState.PENDING)
    assert not on.cancelled()
    assert not on.alerts("pending")
    on.finishes()
    assert len(on.submitted()) == 1


@plays("burrmill/burrmill#15", "ROCm/spur#243")
@pytest.mark.parametrize("spelling", ["launch failed requeued held", "launch_failed_requeued_held"])
def test_a_failed_launch_that_slurm_holds_is_no_mere_waiting(play: Stage, spelling: str) -> None:
    on = play()
    job = on.running()

    def spell(row: Row) -> Row:
        return row | {"Reason": row["Reason"].replace("launch failed requeued held", spelling)}

    on.clients.edits["squeue"] = spell
    on.cluster.controller.requeue(job.job_id, hold=True, reason="launch failed requeued held")
    on.go(LONG)
    assert [call for call in on.clients.lines("scontrol") if "release" in call], "it does not just wait"
    on.finishes()
    assert len(on.submitted()) == 1


def test_a_first_job_waits_for_a_save_that_may_still_be_written_and_starts_from_the_intact_step(play: Stage) -> None:
    """Somebody's job was cut a minute ago, or still writes: the same bytes. Only then the chain is handed to us."""
    on = play(first=False)
    disk = on.tale().disk
    disk.finish_save(disk.begin_save(300, None))
    disk.cut_save(disk.begin_save(600, None), 0.2)
    on.store.update_chain("run0", retried_at=on.clock.now())
    on.go(60)
    assert "still being written" in on.record().sentence
    assert not on.submitted()
    on.finishes()
    assert on.resumed()[0].step == 300
    assert on.never_bad()
