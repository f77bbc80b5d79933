"""The training program: the night that chainwatch exists for, without chainwatch."""

from __future__ import annotations

import pytest

from chainwatch.model.checkpoint import Status
from chainwatch.model.job import JobState
from chainwatch.simulation import (
    OnTerm,
    Qos,
    Recipe,
    ResumeRule,
    Settings,
    SiteResubmitter,
    StorageHangs,
    TrainingFault,
    Trouble,
)
from chainwatch.simulation.training import CORRUPT_LINE, MARK, RESUME_VARIABLE
from chainwatch.simulation.truth import bad_starts, lost_steps, running_together
from tests.simulation.lab import TRAIN, Lab

SHORT = Recipe(final_step=1000, save_every=100, steps_per_second=1.0, save_seconds=20, startup=5, load=5)


def test_an_undisturbed_run_ends_with_the_final_step_saved_and_the_mark_written() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive")
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(SHORT.seconds + 60)
    assert lab.row(job).state is JobState.COMPLETED
    assert training.disk.finished
    log = [line.text for line in training.disk.lines(f"/home/ada/slurm-{job}.out")]
    assert log[-1] == f"{MARK} at step 1000"
    progress = training.progress()
    assert (progress.step, progress.saved_step, progress.target) == (1000, 1000, 1000)
    assert len(training.disk.states) == 5, "the training itself drops its oldest"


def test_a_save_cut_by_preemption_leaves_the_highest_number_damaged_and_kills_the_naive_next_job() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", "--qos=extra")
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(1 + 5 + 5 + 100 + 20 + 100 + 14)
    lab.cluster.preempt(first)
    lab.clock.sleep(10)
    report = training.disk.report()
    assert [(c.step, c.status) for c in report.checkpoints] == [(100, Status.INTACT), (200, Status.IN_PROGRESS)]
    lab.clock.sleep(200)
    report = training.disk.report()
    assert [(c.step, c.status) for c in report.checkpoints] == [(100, Status.INTACT), (200, Status.DAMAGED)]
    assert report.newest_intact is not None
    assert report.newest_intact.step == 100
    second = lab.submit(script=TRAIN)
    lab.clock.sleep(60)
    row = lab.row(second)
    assert (row.state, str(row.exit)) == (JobState.FAILED, "1:0")
    assert training.disk.lines(f"/home/ada/slurm-{second}.out")[-1].text == CORRUPT_LINE
    ((_, start),) = bad_starts(training)
    assert (start.step, start.best_step) == (200, 100)


def test_an_early_cut_is_incomplete() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive")
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(1 + 5 + 5 + 100 + 5)
    lab.backend.cancel(job)
    lab.clock.sleep(200)
    assert [s.status for s in training.disk.states.values()] == [Status.INCOMPLETE]


@pytest.mark.parametrize("rule", [ResumeRule.LATEST, ResumeRule.POINTER, ResumeRule.RESUME_FILE, ResumeRule.GIVEN])
def test_other_resume_rules_come_back_from_the_intact_one(rule: ResumeRule) -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", resume=rule)
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(1 + 5 + 5 + 100 + 20 + 100 + 14)
    lab.backend.cancel(first)
    lab.clock.sleep(60)
    intact = training.disk.path_of(100)
    training.disk.resume_file = intact
    lab.submit(f"--export=ALL,{RESUME_VARIABLE}={intact}", script=TRAIN)
    lab.clock.sleep(2000)
    assert training.disk.finished
    assert bad_starts(training) == []
    assert 100 <= lost_steps(training) <= 120


def test_a_given_checkpoint_is_dropped_by_export_none_and_the_run_silently_begins_at_0() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", resume=ResumeRule.GIVEN)
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(250)
    lab.backend.cancel(first)
    lab.clock.sleep(60)
    lab.submit("--export=NONE", script=TRAIN)
    lab.clock.sleep(30)
    ((_, start),) = bad_starts(training)
    assert start.path is None


def test_a_checkpoint_moved_aside_is_not_found_by_the_naive_rule_and_can_be_put_back() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive")
    disk = training.disk
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(1 + 5 + 5 + 100 + 20 + 100 + 14)
    lab.backend.cancel(first)
    lab.clock.sleep(60)
    aside = disk.set_aside(disk.path_of(200))
    assert [m.status for m in disk.moves] == [Status.DAMAGED]
    lab.submit(script=TRAIN)
    lab.clock.sleep(30)
    assert bad_starts(training) == []
    assert disk.restore(aside) == disk.path_of(200)


@pytest.mark.parametrize(
    ("how", "state", "saved"),
    [
        (OnTerm.DIE, JobState.FAILED, 100),
        (OnTerm.EXIT_1, JobState.FAILED, 100),
        (OnTerm.EXIT_0, JobState.COMPLETED, 100),
        (OnTerm.SAVE, JobState.COMPLETED, 150),
        (OnTerm.IGNORE, JobState.PREEMPTED, 200),
    ],
)
def test_what_the_training_does_at_sigterm_decides_what_22_05_records(how: OnTerm, state: JobState, saved: int) -> None:
    lab = Lab(Settings(qos=(Qos("normal", 100, frozenset({"extra"})), Qos("extra", 1, grace=100))))
    training = lab.training(SHORT, "--exclusive", "--qos=extra", on_term=how)
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(1 + 5 + 5 + 100 + 20 + 50)
    lab.cluster.preempt(job)
    lab.clock.sleep(180)
    assert lab.row(job).state is state
    best = training.disk.newest_intact()
    assert best is not None
    assert saved - 2 <= best.step <= saved


def test_a_teardown_crash_is_failed_1_after_the_final_step() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", teardown_crash=True)
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(SHORT.seconds + 60)
    assert training.disk.finished
    assert (lab.row(job).state, str(lab.row(job).exit)) == (JobState.FAILED, "1:0")


def test_a_script_that_hides_its_steps_exit_is_completed() -> None:
    lab = Lab()
    fault = TrainingFault(Trouble.CRASH, 150)
    training = lab.training(SHORT, "--exclusive", hides_exit=True, faults=(fault,))
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(400)
    row = lab.row(job)
    assert (row.state, str(row.derived_exit), training.disk.finished) == (JobState.COMPLETED, "1:0", False)


def test_a_fault_strikes_as_often_as_it_says_and_a_hang_stands_still() -> None:
    lab = Lab()
    faults = (TrainingFault(Trouble.CRASH, 150, 1), TrainingFault(Trouble.HANG, 450, 1))
    training = lab.training(SHORT, "--exclusive", faults=faults, resume=ResumeRule.LATEST)
    lab.submit(script=TRAIN)
    lab.clock.sleep(400)
    second = lab.submit(script=TRAIN)
    lab.clock.sleep(3000)
    assert lab.state(second) == "RUNNING"
    assert training.progress().step == 450
    lab.backend.cancel(second)
    lab.clock.sleep(60)
    lab.submit(script=TRAIN)
    lab.clock.sleep(2000)
    assert training.disk.finished


def test_a_faulty_node_crashes_every_run_on_it() -> None:
    lab = Lab()
    lab.cluster.controller.nodes["n1"].faulty = True
    training = lab.training(SHORT, "--exclusive", resume=ResumeRule.LATEST)
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(120)
    assert lab.row(first).state is JobState.FAILED
    lab.submit("--exclude=n1", script=TRAIN)
    lab.clock.sleep(SHORT.seconds + 60)
    assert training.disk.finished


def test_a_sites_resubmitter_brings_a_preempted_run_back_from_the_highest_step_and_ignores_failures() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", "--qos=extra", on_term=OnTerm.IGNORE)
    site = SiteResubmitter(lab.cluster, TRAIN, training.disk)
    first = lab.submit(script=TRAIN)
    lab.clock.sleep(300)
    lab.cluster.preempt(first)
    lab.clock.sleep(400)
    assert len(site.submitted) == 1
    lab.backend.cancel(site.submitted[0])
    lab.clock.sleep(200)
    assert len(site.submitted) == 2, "our own scancel wakes it too"
    assert running_together(lab.cluster.runs) == []
    training.disk.rot(training.disk.highest().path)  # type: ignore[union-attr]
    lab.clock.sleep(86_400)
    assert len(site.submitted) == 2


def test_a_storage_that_hangs_raises_instead_of_looking_empty() -> None:
    lab = Lab()
    training = lab.training(SHORT)
    training.disk.hangs = True
    with pytest.raises(StorageHangs):
        training.disk.report()
    with pytest.raises(StorageHangs):
        training.disk.lines("/x")


def test_slurms_own_lines_reach_the_log() -> None:
    lab = Lab()
    training = lab.training(SHORT, "--exclusive", "--qos=extra", on_term=OnTerm.IGNORE)
    job = lab.submit(script=TRAIN)
    lab.clock.sleep(100)
    lab.cluster.preempt(job)
    lab.clock.sleep(200)
    log = [line.text for line in training.disk.lines(f"/home/ada/slurm-{job}.out")]
    assert any(f"*** JOB {job} ON n1 CANCELLED AT" in line and "DUE TO PREEMPTION ***" in line for line in log)
