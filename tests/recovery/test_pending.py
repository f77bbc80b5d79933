"""Each pending reason waits by itself, or for a person: the words of Slurm 20.11 to 26.05."""

from __future__ import annotations

import pytest

from chainwatch.recovery import needs_person

_PASSES = """
None Priority Resources BeginTime Dependency Licenses Reservation ReqNodeNotAvail Cleaning Prolog Nodes QOSGrpCpuLimit
QOSGrpGRES QOSGrpNodeLimit QOSMaxJobsPerUserLimit QOSMaxCpuPerUserLimit QOSMaxGRESPerUser JobArrayTaskLimit PartitionDown
Reboot_Pending FrontEndDown NonZeroExitCode AssocMaxJobsLimit AssocMaxCpuPerAcct
"""
_NEVER_PASSES = """
DependencyNeverSatisfied PartitionTimeLimit PartitionNodeLimit PartitionConfig PartitionInactive BadConstraints
AccountNotAllowed InvalidAccount InvalidQOS QOSNotAllowed JobHeldUser JobHeldAdmin QOSUsageThreshold ReservationDeleted
MaxRequeue JobHoldMaxRequeue DeadLine FedJobLock NodeDown AssocGrpCpuLimit AssocGrpGRES AssocGrpNodeLimit AssocGrpMemLimit
AssocGrpJobsLimit AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit AssocGrpBillingMinutes AssocGrpWallLimit
QOSGrpCPUMinutesLimit QOSGrpWallLimit QOSMaxWallDurationPerJobLimit AssocMaxWallDurationPerJobLimit QOSMaxCpuPerJobLimit
QOSMaxGRESPerJob AssocMaxNodePerJobLimit QOSMinGRES
"""


@pytest.mark.parametrize("word", _PASSES.split())
def test_what_passes_by_itself_bothers_nobody(word: str) -> None:
    assert needs_person(word) is None


@pytest.mark.parametrize("word", _NEVER_PASSES.split())
def test_what_never_passes_is_a_persons_and_says_why_and_what_to_do(word: str) -> None:
    person = needs_person(word)
    assert person is not None
    assert person.why
    assert person.do


@pytest.mark.parametrize(
    "text",
    ["launch failed requeued held", "(launch_failed_requeued_held)", "job requeued in held state", "(JobHeldAdmin)"],
)
def test_squeue_and_scontrol_write_the_same_reason_in_two_ways(text: str) -> None:
    assert needs_person(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "ReqNodeNotAvail, Reserved for maintenance",
        "ReqNodeNotAvail,_Reserved_for_maintenance",
        "(Maintenance reservation)",
    ],
)
def test_a_maintenance_that_the_time_limit_runs_into_is_told_with_the_way_out(text: str) -> None:
    person = needs_person(text)
    assert person is not None
    assert "run into a maintenance reservation" in person.why
    assert "with a shorter time limit it may end before it" in person.do


@pytest.mark.parametrize(
    "text",
    [
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
        "ReqNodeNotAvail, May be reserved for other job",
        "Gres/mainframe",
        "",
    ],
)
def test_nodes_that_are_not_available_now_are_waited_for(text: str) -> None:
    assert needs_person(text) is None
