"""What keeps a job in the queue: dependencies, holds, arrays, room."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chainwatch.model.job import JobState
from chainwatch.simulation import PreemptMode, Qos, Settings
from chainwatch.slurm.backend import Refusal, Refused
from tests.simulation.lab import Lab, batch


def test_afterany_waits_until_completing_is_over() -> None:
    lab = Lab()
    first = lab.run(batch(None, ignores_term=True))
    second = lab.submit(f"--dependency=afterany:{first}")
    lab.clock.sleep(10)
    assert (lab.state(second), lab.reason(second)) == ("PENDING", "Dependency")
    lab.backend.cancel(first)
    lab.clock.sleep(20)
    assert (lab.state(first), lab.state(second)) == ("COMPLETING", "PENDING")
    lab.clock.sleep(30)
    assert lab.state(second) == "RUNNING"


def test_singleton_does_not_wait_for_completing() -> None:
    lab = Lab()
    first = lab.run(batch(None, ignores_term=True), "--job-name=run")
    second = lab.submit("--job-name=run", "--dependency=singleton")
    lab.clock.sleep(10)
    assert lab.reason(second) == "Dependency"
    lab.backend.cancel(first)
    lab.clock.sleep(5)
    assert (lab.state(first), lab.state(second)) == ("COMPLETING", "RUNNING")


def test_singleton_minds_only_jobs_of_the_same_user_and_name() -> None:
    lab = Lab()
    lab.run(batch(None), "--job-name=other")
    second = lab.submit("--job-name=run", "--dependency=singleton")
    lab.clock.sleep(5)
    assert lab.state(second) == "RUNNING"


def test_afterany_on_a_requeued_job_waits_for_its_next_end() -> None:
    lab = Lab()
    first = lab.run(batch(None))
    second = lab.submit(f"--dependency=afterany:{first}")
    lab.clock.sleep(10)
    lab.backend.requeue(first)
    lab.clock.sleep(200)
    assert (lab.state(first), lab.state(second)) == ("RUNNING", "PENDING")


def test_a_purged_predecessor_counts_as_met_even_for_afternotok() -> None:
    lab = Lab(Settings(min_job_age=60))
    first = lab.run(batch(5))
    lab.clock.sleep(300)
    assert lab.backend.job(first) is None
    second = lab.submit(f"--dependency=afternotok:{first}")
    lab.clock.sleep(5)
    assert lab.state(second) == "RUNNING"


def test_newer_releases_refuse_to_wait_for_the_success_or_failure_of_a_job_that_nobody_knows() -> None:
    lab = Lab(Settings(release="24.11.5"))
    lab.script(batch(5))
    with pytest.raises(Refused, match="Job dependency problem"):
        lab.submit("--dependency=afternotok:77")
    late = lab.submit("--dependency=afterany:77")
    lab.clock.sleep(5)
    assert lab.state(late) == "RUNNING"


def test_afternotok_of_a_remembered_success_is_never_satisfied() -> None:
    lab = Lab()
    first = lab.run(batch(5))
    lab.clock.sleep(30)
    second = lab.submit(f"--dependency=afternotok:{first}")
    third = lab.submit(f"--dependency=afternotok:{first}", "--kill-on-invalid-dep=yes")
    lab.clock.sleep(30)
    assert (lab.state(second), lab.reason(second)) == ("PENDING", "DependencyNeverSatisfied")
    assert lab.state(third) == "CANCELLED"
    assert lab.row(third).cancelled_by is None, "cancelled by Slurm itself"


def test_a_requeued_job_has_lost_the_dependency_that_it_once_met() -> None:
    lab = Lab()
    first = lab.run(batch(20), "--job-name=run")
    lab.script(batch(None))
    second = lab.submit("--job-name=run", "--dependency=singleton")
    lab.clock.sleep(60)
    assert lab.state(second) == "RUNNING"
    lab.backend.requeue(second)
    lab.clock.sleep(5)
    assert lab.queued(second).dependency == ""  # type: ignore[union-attr]
    assert lab.state(first) == "COMPLETED"


def test_a_het_job_that_waits_for_its_own_name_waits_for_ever() -> None:
    lab = Lab()
    lab.script(batch(5))
    alone = lab.submit("--job-name=run", ":", "--job-name=run")
    lab.clock.sleep(60)
    assert lab.state(alone) == "COMPLETED"
    stuck = lab.submit("--job-name=run", "--dependency=singleton", ":", "--job-name=run", "--dependency=singleton")
    lab.clock.sleep(3600)
    assert lab.state(stuck) == "PENDING"


def test_alternatives_need_only_one_and_all_parts_otherwise() -> None:
    lab = Lab()
    quick, slow = lab.run(batch(20)), lab.run(batch(500))
    either = lab.submit(f"--dependency=afterany:{quick}?afterany:{slow}")
    both = lab.submit(f"--dependency=afterany:{quick},afterany:{slow}")
    lab.clock.sleep(60)
    assert lab.state(either) == "RUNNING"
    assert lab.queued(both).dependency == f"afterany:{slow}"  # type: ignore[union-attr]


def test_a_users_hold_can_be_released_and_an_admins_only_by_an_admin() -> None:
    lab = Lab()
    mine, theirs = lab.run(batch(50), "--hold"), lab.submit("--begin=now+1hour")
    lab.cluster.controller.hold(theirs, "admin")
    assert (lab.reason(mine), lab.reason(theirs)) == ("JobHeldUser", "JobHeldAdmin")
    assert lab.queued(mine).held  # type: ignore[union-attr]
    assert lab.queued(mine).priority == 0  # type: ignore[union-attr]
    lab.backend.release(mine)
    with pytest.raises(Refused) as refused:
        lab.backend.release(theirs)
    assert refused.value.calls_for is Refusal.PERSON
    lab.clock.sleep(5)
    assert (lab.state(mine), lab.state(theirs)) == ("RUNNING", "PENDING")


def test_uhold_of_a_running_job_is_refused() -> None:
    lab = Lab()
    job = lab.run(batch(50))
    lab.clock.sleep(5)
    with pytest.raises(Refused, match="no longer pending"):
        lab.backend.hold(job)


def test_a_launch_that_fails_comes_back_held() -> None:
    lab = Lab()
    job = lab.run(batch(None))
    lab.clock.sleep(5)
    lab.cluster.controller.requeue(job, hold=True, reason="launch failed requeued held")
    lab.clock.sleep(300)
    live = lab.queued(job)
    assert live is not None
    assert (live.state, live.reason, live.held) == (JobState.PENDING, "launch failed requeued held", True)
    lab.backend.release(job)
    lab.clock.sleep(130)
    assert lab.state(job) == "RUNNING"


def test_a_pending_job_has_no_start_and_begin_is_kept() -> None:
    lab = Lab()
    job = lab.run(batch(5), "--begin=now+10minutes")
    assert lab.queued(job).start is None  # type: ignore[union-attr]
    lab.clock.sleep(595)
    assert lab.reason(job) == "BeginTime"
    lab.clock.sleep(8)
    assert lab.state(job) == "RUNNING"


def test_array_with_limit_1_runs_its_tasks_one_by_one_and_the_last_keeps_the_arrays_id() -> None:
    lab = Lab()
    array = lab.run(batch(20), "--array=1-3%1")
    lab.clock.sleep(10)
    shown = {j.shown_id: (j.state, j.array_task) for j in lab.backend.queue(None)}
    assert shown == {f"{array}_[2-3]": (JobState.PENDING, "[2-3]"), f"{array}_1": (JobState.RUNNING, "1")}
    assert lab.backend.job(array).array_limit == 1  # type: ignore[union-attr]
    assert lab.row(array).shown_id == f"{array}_[2-3%1]"
    assert lab.reason(array) == "JobArrayTaskLimit"
    lab.clock.sleep(100)
    done = {j.shown_id: j.job_id for j in lab.backend.queue(None)}
    assert done == {f"{array}_1": array + 1, f"{array}_2": array + 2, f"{array}_3": array}
    starts = sorted((r.started, r.stopped) for r in lab.cluster.runs)
    assert all(a[1] <= b[0] for a, b in pairwise(starts))  # type: ignore[operator]


def test_cancelling_an_arrays_id_cancels_all_of_it() -> None:
    lab = Lab()
    array = lab.run(batch(None), "--array=0-9%2")
    lab.clock.sleep(10)
    lab.cluster.cancel(array)
    lab.clock.sleep(30)
    assert {j.state for j in lab.backend.queue(None)} == {JobState.CANCELLED}


def test_the_backend_cancels_the_task_that_has_the_arrays_id_alone() -> None:
    lab = Lab()
    array = lab.run(batch(None), "--array=0-1")
    lab.clock.sleep(10)
    lab.backend.cancel(array)
    lab.clock.sleep(30)
    assert (lab.state(array), lab.state(array + 1)) == ("CANCELLED", "RUNNING")


def test_a_request_that_no_cluster_can_meet_waits_for_ever() -> None:
    lab = Lab()
    job = lab.run(batch(5), "--nodes=64")
    lab.clock.sleep(60)
    assert (lab.state(job), lab.reason(job)) == ("PENDING", "PartitionConfig")


def test_excluded_and_unusable_nodes_are_not_used() -> None:
    lab = Lab()
    lab.cluster.drain("n2", "bad fan")
    job = lab.run(batch(50), "--exclusive", "--nodes=2", "--exclude=n[1]")
    lab.clock.sleep(5)
    assert lab.queued(job).nodes == ("n3", "n4")  # type: ignore[union-attr]
    other = lab.submit("--exclusive", "--nodes=1", "--nodelist=n2")
    lab.clock.sleep(5)
    assert lab.reason(other).startswith("Nodes required for job are DOWN, DRAINED")


def test_a_more_urgent_job_pushes_aside_as_few_as_it_needs_and_nobody_slips_in_between() -> None:
    quick = (Qos("normal", 100, frozenset({"extra"})), Qos("extra", 1, mode=PreemptMode.CANCEL))
    lab = Lab(Settings(qos=quick))
    weak = [lab.run(batch(None), "--exclusive", "--qos=extra") for _ in range(4)]
    waiting = lab.submit("--exclusive", "--qos=extra")
    lab.clock.sleep(10)
    assert lab.reason(waiting) == "Resources"
    lab.cluster.occupy(2, 600)
    lab.clock.sleep(60)
    states = [lab.state(j) for j in weak]
    assert sorted(states) == ["PREEMPTED", "PREEMPTED", "RUNNING", "RUNNING"]
    assert lab.state(waiting) == "PENDING"
    lab.clock.sleep(1300)
    assert lab.state(waiting) == "RUNNING"


def test_small_jobs_share_a_node_and_exclusive_ones_do_not() -> None:
    lab = Lab()
    small = [lab.run(batch(None), "--cpus-per-task=4", "--nodelist=n1") for _ in range(3)]
    lab.clock.sleep(5)
    assert [lab.state(j) for j in small] == ["RUNNING", "RUNNING", "PENDING"]
    assert [n.state for n in lab.backend.nodes(["n1", "n2"])] == ["allocated", "idle"]
