"""What is decided after an end: each test is one sentence of the policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from chainwatch.model.chain import ExcludedNode, FromCheckpoint, FromScratch, LeaveAlone, Rest, Resubmit, Stop, Wait
from chainwatch.model.checkpoint import RunReport, Status
from chainwatch.model.verdict import Cause, Outcome, Retry
from chainwatch.recovery import blamed, decide
from tests.recovery.build import NOW, checkpoint, ended, report, situation

C = Cause


def test_a_preempted_chain_resumes_from_the_newest_intact_checkpoint() -> None:
    found = report(checkpoint(10), checkpoint(20), checkpoint(30, Status.DAMAGED))
    decision = decide(situation(ended(C.PREEMPTION, saved=20, before=10), found=found))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromCheckpoint)
    assert decision.resume.checkpoint.step == 20
    assert [c.step for c in decision.set_aside] == [30]
    assert "not from global_step30, which is damaged" in decision.why


def test_a_chain_that_is_proven_done_is_left_alone() -> None:
    attempt = ended(C.COMPLETED)
    assert attempt.verdict is not None
    done = replace(attempt, verdict=replace(attempt.verdict, outcome=Outcome.DONE))
    assert isinstance(decide(situation(done)), LeaveAlone)


def test_a_chain_that_only_looks_done_rests_and_asks() -> None:
    decision = decide(situation(ended(C.COMPLETED)))
    assert isinstance(decision, Rest)
    assert "`chainwatch done night`" in decision.advice
    assert "chainwatch retry night" in decision.advice


@pytest.mark.parametrize(
    ("cause", "why", "advice"),
    [
        (C.CANCELLED_BY_USER, "somebody wanted it to end", "`chainwatch stop night` ends the chain"),
        (C.CANCELLED_BY_OTHER, "chainwatch never undoes what an operator did", "ask them why"),
    ],
)
def test_what_somebody_cancelled_is_never_resubmitted(cause: Cause, why: str, advice: str) -> None:
    decision = decide(situation(ended(cause, saved=20, before=10)))
    assert isinstance(decision, Rest)
    assert why in decision.why
    assert advice in decision.advice


@pytest.mark.parametrize("cause", [C.USER_CODE, C.USER_CONFIG, C.ENVIRONMENT, C.NUMERIC, C.OOM_GPU])
def test_what_a_retry_cannot_mend_stops_at_once(cause: Cause) -> None:
    assert isinstance(decide(situation(ended(cause, saved=20, before=10))), Stop)


def test_a_damaged_checkpoint_is_replaced_by_an_older_one_and_spends_nothing() -> None:
    past = [
        ended(C.PREEMPTION, saved=10, before=None, ago=9),
        ended(C.CHECKPOINT_CORRUPT, before=10, resumed="/run/global_step20"),
    ]
    found = report(checkpoint(10), checkpoint(20, Status.DAMAGED))
    decision = decide(situation(*past, found=found, recovery={"retries": 0, "retries_per_failure": 0}))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromCheckpoint)
    assert decision.resume.checkpoint.step == 10


def test_a_checkpoint_that_looks_intact_but_killed_a_job_is_avoided() -> None:
    past = ended(C.CHECKPOINT_CORRUPT, before=20, resumed="/run/global_step20")
    decision = decide(situation(past, found=report(checkpoint(10), checkpoint(20))))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromCheckpoint)
    assert decision.resume.checkpoint.step == 10


def test_the_same_damaged_step_is_free_only_once() -> None:
    corrupt = [
        ended(C.CHECKPOINT_CORRUPT, before=10, resumed="/run/global_step20", ago=a) for a in (50, 40, 30, 20, 10)
    ]
    assert isinstance(decide(situation(*corrupt)), Rest)


def test_no_checkpoint_at_all_means_starting_from_the_beginning() -> None:
    decision = decide(situation(ended(C.PREEMPTION), found=report()))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromScratch)


@pytest.mark.parametrize(
    "found",
    [report(checkpoint(10, Status.DAMAGED)), report(checkpoint(10, Status.INCOMPLETE))],
    ids=["damaged", "incomplete"],
)
def test_nothing_intact_is_never_a_silent_start_from_scratch(found: RunReport) -> None:
    decision = decide(situation(ended(C.PREEMPTION), found=found))
    assert isinstance(decision, Stop)
    assert "none intact" in decision.why


def test_checkpoints_that_were_there_and_are_gone_stop_the_chain() -> None:
    decision = decide(situation(ended(C.PREEMPTION, saved=500, before=10), found=report()))
    assert isinstance(decision, Stop)
    assert "step 500 was saved" in decision.why


def test_files_that_look_like_saves_of_no_known_format_are_never_a_silent_start_from_scratch() -> None:
    found = report()._replace(unknown=("model_000100.pkl", "model_000200.pkl"))
    for past in ((), (ended(C.PREEMPTION, step=220),)):
        decision = decide(situation(*past, found=found))
        assert isinstance(decision, Stop)
        assert "2 files under /run look like saves (model_000100.pkl, model_000200.pkl)" in decision.why
        assert "checkpoints.custom" in decision.advice
    settings = {"directory": "/run", "from_scratch": "if_none_intact"}
    decision = decide(situation(ended(C.PREEMPTION), found=found, checkpoints=settings))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromScratch)
    assert "model_000100.pkl" in decision.why


def test_starting_over_is_allowed_where_the_configuration_says_so() -> None:
    settings = {"directory": "/run", "from_scratch": "if_none_intact"}
    found = report(checkpoint(10, Status.DAMAGED))
    decision = decide(situation(ended(C.PREEMPTION), found=found, checkpoints=settings))
    assert isinstance(decision, Resubmit)
    assert isinstance(decision.resume, FromScratch)


def test_silent_storage_is_waited_for() -> None:
    decision = decide(situation(ended(C.PREEMPTION), found=None))
    assert isinstance(decision, Wait)
    assert not decision.needs_person


def test_a_checkpoint_that_is_still_written_to_has_a_writer_to_wait_for() -> None:
    found = report(checkpoint(10), checkpoint(20, Status.IN_PROGRESS))
    decision = decide(situation(ended(C.HARDWARE_NODE, saved=10, before=None, ago=1), found=found))
    assert isinstance(decision, Wait)
    assert not decision.needs_person
    later = decide(situation(ended(C.HARDWARE_NODE, saved=10, before=None, ago=45), found=found))
    assert isinstance(later, Wait)
    assert later.needs_person


def test_node_failures_are_free_while_saved_progress_advances() -> None:
    past = [ended(C.HARDWARE_NODE, saved=10 * i + 10, before=10 * i, ago=100 - i) for i in range(30)]
    assert isinstance(decide(situation(*past)), Resubmit)


def test_node_failures_without_saved_progress_come_to_rest() -> None:
    past = [ended(C.HARDWARE_NODE, before=10, ago=100 - i, fingerprint=f"n{i}") for i in range(4)]
    assert isinstance(decide(situation(*past)), Rest)


@pytest.mark.parametrize("cause", [C.HARDWARE_NODE, C.TIME_LIMIT])
def test_interruptions_without_saved_progress_count_towards_the_three(cause: Cause) -> None:
    """Each looks like the one before, and is no failure of its own for that."""
    past = [ended(cause, before=10, ago=400 - 60 * i) for i in range(4)]
    assert isinstance(decide(situation(*past[:3])), Resubmit)
    decision = decide(situation(*past))
    assert isinstance(decision, Rest)
    assert decision.why.startswith("4 failovers without saved progress, the budget is 3")


@pytest.mark.parametrize("cause", [C.HARDWARE_NODE, C.TIME_LIMIT])
def test_an_interruption_that_left_saved_progress_spends_nothing(cause: Cause) -> None:
    saved = ended(cause, saved=20, before=10, ago=500)
    three = [ended(C.HARDWARE_NODE, before=20, ago=400 - 60 * i) for i in range(3)]
    assert isinstance(decide(situation(saved, *three)), Resubmit), "three were spent, not four"
    assert isinstance(decide(situation(saved, *three, ended(C.HARDWARE_NODE, before=20))), Rest)


def test_what_came_before_saved_progress_is_forgotten() -> None:
    before = [ended(C.HARDWARE_NODE, before=10, ago=900 - 60 * i) for i in range(3)]
    saved = ended(C.PREEMPTION, saved=20, before=10, ago=500)
    assert isinstance(decide(situation(*before, saved, ended(C.HARDWARE_NODE, before=20))), Resubmit)


def test_a_chain_that_rests_says_what_a_person_can_do_and_not_what_was_done_in_vain() -> None:
    limit = decide(situation(*[ended(C.TIME_LIMIT, before=10, ago=400 - 60 * i) for i in range(4)]))
    assert isinstance(limit, Rest)
    assert limit.advice.startswith("no job reached its next save within its time limit: save more often")
    nodes = decide(situation(*[ended(C.HARDWARE_NODE, before=10, ago=400 - 60 * i, nodes=("n3",)) for i in range(4)]))
    assert isinstance(nodes, Rest)
    assert nodes.advice.startswith("report n3 to the site's support")


def test_a_chain_whose_checkpoints_nobody_named_hears_that_no_progress_is_known() -> None:
    past = [ended(C.PREEMPTION, ago=5000 - i) for i in range(20)]
    decision = decide(situation(*past, checkpoints=None))
    assert isinstance(decision, Rest)
    assert "name where it saves under `checkpoints:`" in decision.advice
    assert "name where" not in decide(situation(*past)).advice  # type: ignore[union-attr]


def test_one_failure_on_changing_nodes_buys_no_endless_retries() -> None:
    past = [ended(C.HARDWARE_GPU, before=10, ago=100 - i, fingerprint="xid79", nodes=(f"n{i}",)) for i in range(3)]
    decision = decide(situation(*past))
    assert isinstance(decision, Rest)
    assert "the same failure 3 times" in decision.why


def test_two_equal_failures_right_after_the_start_stop_the_chain() -> None:
    past = [ended(C.UNKNOWN, before=10, minutes=2, ago=100 - i, step=11) for i in range(2)]
    assert isinstance(decide(situation(*past)), Stop)


def test_preemptions_in_vain_are_spaced_out_and_then_rest() -> None:
    few = [ended(C.PREEMPTION, before=10, ago=0) for _ in range(6)]
    assert isinstance(decide(situation(*few)), Wait)
    many = [ended(C.PREEMPTION, before=10, ago=5000 - i) for i in range(20)]
    assert isinstance(decide(situation(*many)), Rest)


def test_the_fifth_preemption_in_vain_is_told_whatever_ended_between_them() -> None:
    past = [ended(C.PREEMPTION, before=10, ago=900 - i) for i in range(4)]
    past.insert(2, ended(C.HARDWARE_NODE, before=10, ago=898.5))
    four = decide(situation(*past))
    assert isinstance(four, Resubmit)
    assert not four.tell
    five = decide(situation(*past, ended(C.PREEMPTION, before=10, ago=500)))
    assert isinstance(five, Resubmit)
    assert "preempted 5 times without a new intact checkpoint" in five.tell


def test_preemptions_that_save_something_never_wait() -> None:
    past = [ended(C.PREEMPTION, saved=i + 1, before=i, ago=0) for i in range(50)]
    assert isinstance(decide(situation(*past)), Resubmit)


def test_storage_is_given_time_and_the_time_doubles() -> None:
    one = decide(situation(ended(C.STORAGE, before=10)))
    two = decide(
        situation(ended(C.STORAGE, before=10, ago=90, fingerprint="a"), ended(C.STORAGE, before=10, fingerprint="b"))
    )
    assert isinstance(one, Wait)
    assert isinstance(two, Wait)
    assert timedelta(0) < one.until - NOW <= timedelta(minutes=1) < two.until - NOW <= timedelta(minutes=2)


def test_storage_that_a_probe_finds_broken_is_waited_for_and_a_person_hears_after_half_an_hour() -> None:
    for ago, person in ((10, False), (40, True)):
        s = replace(situation(ended(C.STORAGE, before=10, ago=ago)), storage="it cannot be written")
        decision = decide(s)
        assert isinstance(decision, Wait)
        assert "its storage does not work yet: it cannot be written" in decision.why
        assert decision.needs_person is person
    later = replace(situation(ended(C.STORAGE, before=10, ago=361)), storage="it cannot be written")
    assert isinstance(decide(later), Resubmit), "a job may see more than a probe does"
    other = replace(situation(ended(C.PREEMPTION, before=10, ago=10)), storage="it cannot be written")
    assert isinstance(decide(other), Resubmit)


def test_what_a_verdict_says_to_wait_for_is_waited_for_whatever_its_cause() -> None:
    registry = ended(C.ENVIRONMENT, before=10)
    assert registry.verdict is not None
    registry = replace(registry, verdict=replace(registry.verdict, retry=Retry.WAIT))
    assert isinstance(decide(situation(registry)), Wait)


def test_a_persons_retry_lifts_rest_and_stop_and_refills_the_budget() -> None:
    past = [ended(C.USER_CODE, before=10, ago=10)]
    asked = situation(*past)
    asked = replace(asked, history=replace(asked.history, retried_at=NOW))
    assert isinstance(decide(asked), Resubmit)


def test_recovery_off_rests_and_says_so() -> None:
    decision = decide(situation(ended(C.PREEMPTION, saved=20, before=10), recovery=False))
    assert isinstance(decision, Rest)
    assert "recovery is off" in decision.why


def test_caps_end_the_chain() -> None:
    past = [ended(C.PREEMPTION, saved=i + 1, before=i) for i in range(3)]
    assert isinstance(decide(situation(*past, caps={"attempts": 3})), Rest)
    spent = situation(*past, caps={"gpu_hours": 5})
    assert isinstance(decide(replace(spent, history=replace(spent.history, gpu_hours=5.5))), Rest)
    assert isinstance(decide(situation(*past, caps={"until": NOW - timedelta(days=1)})), Rest)


def test_a_daemon_that_submitted_too_much_in_an_hour_waits() -> None:
    busy = situation(ended(C.PREEMPTION, saved=20, before=10))
    assert isinstance(decide(replace(busy, history=replace(busy.history, submissions_last_hour=60))), Wait)


def test_nan_rolls_back_once_and_only_where_that_is_allowed() -> None:
    found = report(checkpoint(10), checkpoint(20))
    nan = ended(C.NUMERIC, before=20, resumed="/run/global_step20")
    assert isinstance(decide(situation(nan, found=found)), Stop)
    rolled = decide(situation(nan, found=found, recovery={"numeric_rollback": True}))
    assert isinstance(rolled, Resubmit)
    assert isinstance(rolled.resume, FromCheckpoint)
    assert rolled.resume.checkpoint.step == 10
    again = replace(nan, resumed_from="/run/global_step10")
    assert isinstance(decide(situation(nan, again, found=found, recovery={"numeric_rollback": True})), Stop)


def test_a_hardware_verdict_excludes_the_culprit_and_a_users_error_never_does() -> None:
    policy = situation().settings.recovery.nodes
    hardware = ended(C.HARDWARE_GPU, nodes=("n7",)).verdict
    code = ended(C.USER_CODE, nodes=("n7",)).verdict
    assert hardware is not None
    assert code is not None
    assert [e.node for e in blamed(replace(hardware, retry=Retry.YES_EXCLUDE_NODE), "night", policy, NOW)] == ["n7"]
    assert blamed(replace(code, retry=Retry.YES_EXCLUDE_NODE), "night", policy, NOW) == ()


def test_excluded_nodes_are_capped_so_that_a_chain_never_starves() -> None:
    past = situation(ended(C.PREEMPTION, saved=20, before=10))
    day = timedelta(days=1)
    excluded = tuple(ExcludedNode(f"n{i}", "ecc", NOW - timedelta(hours=i), NOW + day, "night") for i in range(40))
    gone = ExcludedNode("old", "ecc", NOW - 3 * day, NOW - day, "night")
    decision = decide(replace(past, history=replace(past.history, excluded=(*excluded, gone)), partition_size=20))
    assert isinstance(decision, Resubmit)
    assert decision.exclude == ("n0", "n1", "n2", "n3", "n4")
    assert decision.why.endswith("keeps away from n0, n1, n2, n3, n4")


def test_fallback_options_come_after_preemptions_in_vain() -> None:
    past = [ended(C.PREEMPTION, before=10, ago=200 - i) for i in range(3)]
    decision = decide(situation(*past, recovery={"fallback_sbatch": ["--qos=normal"], "sbatch": ["--nice=5"]}))
    assert isinstance(decision, Resubmit)
    assert decision.extra == ("--nice=5", "--qos=normal")


def test_a_stopped_cohort_stops_its_members() -> None:
    past = situation(ended(C.UNKNOWN, before=10, ago=500))
    assert isinstance(decide(replace(past, history=replace(past.history, cohort_stopped="ImportError: x"))), Stop)


def test_an_incident_makes_its_chains_wait() -> None:
    past = situation(ended(C.NETWORK_FABRIC, before=10, ago=500))
    assert isinstance(decide(replace(past, history=replace(past.history, incident="fabric down"))), Wait)


def test_after_an_incident_each_chain_has_its_own_turn_and_then_goes_on() -> None:
    past = situation(ended(C.NETWORK_FABRIC, saved=20, before=10, ago=60))
    over = replace(past, history=replace(past.history, incident_over=NOW, incident_chains=20))
    other = replace(over, history=replace(over.history, chain="day"))
    first, second = decide(over), decide(other)
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert first.until != second.until, "not all at once"
    assert NOW < first.until <= NOW + timedelta(minutes=10)
    assert "return one after the other" in first.why
    assert isinstance(decide(replace(over, now=first.until)), Resubmit)


def test_a_job_that_somebody_cancelled_while_it_hung_is_not_resubmitted() -> None:
    hung = ended(C.HANG, saved=20, before=10)
    assert hung.verdict is not None
    cancelled = replace(hung, verdict=replace(hung.verdict, outcome=Outcome.CANCELLED))
    assert isinstance(decide(situation(cancelled)), Rest)


def test_a_checkpoint_that_crashes_every_job_is_left_once_and_told() -> None:
    past = [ended(C.UNKNOWN, before=10, ago=900 - 60 * i, resumed="/run/global_step10", step=12 + i) for i in range(3)]
    found = report(checkpoint(9), checkpoint(10))
    left = decide(situation(*past, found=found))
    assert isinstance(left, Resubmit)
    assert isinstance(left.resume, FromCheckpoint)
    assert left.resume.checkpoint.step == 9
    assert "the one before it is tried, once" in left.tell
    again = ended(C.UNKNOWN, before=10, ago=500, resumed="/run/global_step10", step=20)
    assert isinstance(decide(situation(*past, again, found=found)), Rest), "whatever the job really loaded: once"
