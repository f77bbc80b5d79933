"""What sbatch and the acting clients answer: an id, a refusal that waits or needs a person, or nothing sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chainwatch.slurm.backend import NoInformation, Refusal, Refused, SubmitUncertain
from chainwatch.slurm.cli import CliBackend
from chainwatch.slurm.process import Reply, TimedOut
from tests.slurm.fake import SUBMISSION, backend, reply

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


def failed(text: str, *before: str, code: int = 1) -> Reply:
    """sbatch's answer when the controller said no."""
    lines = [*before, f"Batch job submission failed: {text}"]
    return reply(stderr="".join(f"sbatch: error: {line}\n" for line in lines), code=code)


@pytest.mark.parametrize(
    ("text", "job_id"),
    [("4711\n", 4711), ("4711;alpha\n", 4711), ("Submitted batch job 4711\n", 4711),
     ("Submitted batch job 4711 on cluster alpha\n", 4711), ("Welcome!\nquota ok\n4711\n", 4711)],
)  # fmt: skip
def test_every_form_of_the_answer_gives_the_id(text: str, job_id: int) -> None:
    assert backend(sbatch=reply(text))[0].submit(SUBMISSION) == job_id


def test_an_id_counts_whatever_the_exit_code_says_for_it_is_printed_after_acceptance() -> None:
    assert backend(sbatch=reply("12\n", code=1))[0].submit(SUBMISSION) == 12
    assert backend(sbatch=reply("12\n", "sbatch: error: spank plugin failed\n", code=1))[0].submit(SUBMISSION) == 12


WAITS = [
    failed(POLICY, "QOSMaxSubmitJobPerUserLimit"),
    failed(POLICY, "AssocMaxSubmitJobLimit"),
    failed(POLICY),
    failed("Required partition not available (inactive or drain)"),
    failed("Partition in DOWN state"),
    failed("System submissions disabled"),
    failed("Slurm temporarily unable to accept job, sleeping and retrying"),
    failed("Resource temporarily unavailable"),
    failed("Unable to create job record, try again"),
    failed("MaxJobCount limit reached"),
    failed("Rate limit exceeded, please retry momentarily"),
    failed("Rate limit exceeded, please retry later"),
    failed("Required node not available (down, drained or reserved)"),
    failed("Requested nodes are busy"),
    failed("Requested reservation not usable now"),
    failed("Job can not start due to maintenance reservation."),
    failed("Licenses currently unavailable"),
    failed("Slurm backup controller in standby mode"),
    failed("I/O error writing script/environment to file"),
    failed("No space left on device"),
]
PERSONS = [
    failed("Invalid qos specification"),
    failed("Invalid account or account/partition combination specified"),
    failed("Invalid partition name specified", "invalid partition specified: nope"),
    failed("Requested node configuration is not available", "Memory specification can not be satisfied"),
    failed("Requested time limit is invalid (missing or exceeds some limit)"),
    failed("Node count specification invalid"),
    failed("Requested reservation is invalid"),
    failed("Access denied to requested reservation"),
    failed("User's group not permitted to use this partition"),
    failed("Invalid feature specification"),
    failed("Invalid generic resource (gres) specification"),
    failed("Job dependency problem"),
    failed("Pathname of a file, directory or other parameter too long"),
    failed("Access/permission denied"),
    failed(POLICY, "QOSMaxCpuPerJobLimit"),
    failed(POLICY, "AssocMaxWallDurationPerJobLimit"),
    failed(POLICY, "QOSMinCpuNotSatisfied"),
    failed("Unspecified error", "You have used 100% of your budget, see https://site.example"),
    reply(stderr="sbatch: error: Unable to open file /x/gone.sh\n", code=1),
    reply(stderr="sbatch: error: This does not look like a batch script.  The first\n", code=1),
    reply(stderr="sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information\n", code=1),
    reply(stderr="sbatch: fatal: --propagate=X is not valid.\n", code=1),
]
UNREACHED = (
    "error: 'beta' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see "
    "available clusters.\n"
)
UNSURE = [
    failed("Socket timed out on send/recv operation"),
    failed("Unable to contact slurm controller (connect failure)"),
    failed("Unable to contact slurm controller (receive failure)"),
    # -M while that cluster's controller is down, and while slurmdbd, which knows where it is, is down (22.05).
    reply(stderr=f"sbatch: {UNREACHED}", code=1),
    reply(
        stderr="sbatch: error: DBD_GET_CLUSTERS failure: Connection refused\nsbatch: error: Problem talking to database\n",
        code=1,
    ),
    failed("Message receive failure"),
    failed("Zero Bytes were transmitted or received"),
    failed("Protocol authentication error", 'Munge encode failed: Failed to access "/run/munge.sock"'),
    failed("Connection reset by peer"),
    failed("Transport endpoint is not connected"),
    failed("Connection timed out reading"),
    failed("Incompatible versions of client and server code"),
    reply(stderr="sbatch: fatal: Could not establish a configuration source\n", code=1),
    reply(
        stderr="sbatch: error: ClusterName needs to be specified\nsbatch: fatal: Unable to process configuration file\n",
        code=1,
    ),
    reply(stderr="sbatch: error: Munge encode failed: Failed to access socket\n", code=1),
    reply("", code=0),
    reply("Your job was registered.\n", code=0),
    reply(code=1),
    reply(code=-9),
    reply(stderr="sbatch: error: Invalid qos specification\n", code=-15),
]


def _id(answer: Reply) -> str:
    return answer.stderr.strip()[-40:] or f"exit {answer.code}"


@pytest.mark.parametrize("answer", WAITS, ids=_id)
def test_what_passes_by_itself_calls_for_waiting(answer: Reply) -> None:
    with pytest.raises(Refused) as refusal:
        backend(sbatch=answer)[0].submit(SUBMISSION)
    assert refusal.value.calls_for is Refusal.WAIT


@pytest.mark.parametrize("answer", PERSONS, ids=_id)
def test_what_does_not_pass_calls_for_a_person_and_says_all_that_was_said(answer: Reply) -> None:
    with pytest.raises(Refused) as refusal:
        backend(sbatch=answer)[0].submit(SUBMISSION)
    assert refusal.value.calls_for is Refusal.PERSON
    for line in answer.stderr.splitlines():
        told = line.removeprefix("sbatch: ").removeprefix("error: ").removeprefix("fatal: ")
        assert told.removeprefix("Batch job submission failed: ") in str(refusal.value)


@pytest.mark.parametrize("answer", UNSURE, ids=_id)
def test_what_may_have_been_accepted_is_uncertain_and_never_a_refusal(answer: Reply) -> None:
    with pytest.raises(SubmitUncertain):
        backend(sbatch=answer)[0].submit(SUBMISSION)


def test_an_sbatch_that_does_not_come_back_is_uncertain() -> None:
    def late(command: Sequence[str]) -> Reply:
        raise TimedOut("sbatch gave no answer within 120 s")

    with pytest.raises(SubmitUncertain, match="may have accepted"):
        backend(sbatch=late)[0].submit(SUBMISSION)


def test_the_call_is_what_the_submission_says_and_the_users_own_option_wins() -> None:
    slurm, clients = backend(sbatch=reply("1\n"))
    slurm.submit(replace(SUBMISSION, options=("--qos=extra", "--propagate=ALL"), args=("a b", "--x")))
    (call,) = clients.calls
    assert call[1:] == ("--parsable", "--propagate=CORE", "--qos=extra", "--propagate=ALL", "/run/job.sh", "a b", "--x")


def test_nothing_of_the_daemon_is_in_the_environment_of_the_call() -> None:
    slurm, clients = backend(sbatch=reply("1\n"))
    slurm.submit(SUBMISSION)
    assert clients.environments == [dict(SUBMISSION.environment)]


def test_the_clusters_own_configuration_is_named_to_sbatch() -> None:
    _, clients = backend(sbatch=reply("1\n"))
    slurm = CliBackend("lab", "/etc/other/slurm.conf", "/nowhere", run=clients, environment={})
    slurm.submit(SUBMISSION)
    assert clients.environments[0]["SLURM_CONF"] == "/etc/other/slurm.conf"


def test_another_cluster_is_reached_by_its_option_in_every_client() -> None:
    from tests.slurm.fake import Clients, sacct_says, squeue_says
    from tests.slurm.test_traps import SHOWN

    clients = Clients(
        sbatch=reply("1;far\n"), squeue=squeue_says(), sacct=sacct_says(), scontrol=reply(SHOWN), scancel=reply()
    )
    slurm = CliBackend("far", bin_dir="/nowhere", run=clients, environment={}, by_clusters_option=True)
    assert slurm.submit(SUBMISSION) == 1
    slurm.queue(None)
    slurm.accounting([1])
    slurm.job(12)
    slurm.cancel(12)
    asked = [call for call in clients.calls if "--helpformat" not in call]
    assert all("--clusters=far" in call for call in asked)
    assert len({Path(call[0]).name for call in asked}) == 5


def test_a_missing_directory_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    slurm, clients = backend(sbatch=reply("1\n"))
    with pytest.raises(Refused, match="is missing"):
        slurm.submit(replace(SUBMISSION, directory=str(tmp_path / "gone")))
    assert clients.calls == []


# -- cancel, hold, release, requeue -----------------------------------------------------------------------------------


def acting(stderr: str = "", code: int = 0, shown: str | None = None) -> tuple[CliBackend, list[tuple[str, ...]]]:
    from tests.slurm.test_traps import SHOWN

    def scontrol(command: Sequence[str]) -> Reply:
        if "show" in command:
            return reply(SHOWN if shown is None else shown)
        return reply(stderr=stderr, code=code)

    slurm, clients = backend(scontrol=scontrol, scancel=reply(stderr=stderr, code=code))
    return slurm, clients.calls


def test_a_task_is_named_as_a_task_for_the_raw_id_may_be_the_whole_array() -> None:
    slurm, calls = acting()
    slurm.cancel(12)
    slurm.cancel(12, signal="USR1")
    slurm.cancel(12, pending_only=True)
    slurm.requeue(12)
    slurm.hold(12)
    slurm.release(12)
    assert [call[1:] for call in calls if "show" not in call] == [
        ("10_2",),
        ("--signal=USR1", "--full", "10_2"),
        ("--state=PENDING", "10_2"),
        ("requeue", "10_2"),
        ("uhold", "10_2"),
        ("release", "10_2"),
    ]


@pytest.mark.parametrize(
    "text",
    ["Invalid job id specified", "Job/step already completing or completed", "Job has already finished"],
)
def test_cancelling_what_is_gone_meanwhile_is_no_error(text: str) -> None:
    slurm, _ = acting(f"scancel: error: Kill job error on job id 12: {text}\n", 1)
    slurm.cancel(12)


def test_cancelling_is_refused_or_unanswered_but_never_silently_dropped() -> None:
    with pytest.raises(Refused, match="denied"):
        acting("scancel: error: Kill job error on job id 12: Access/permission denied\n", 1)[0].cancel(12)
    unreachable = "scancel: error: Kill job error on job id 12: Unable to contact slurm controller (connect failure)\n"
    with pytest.raises(NoInformation):
        acting(unreachable, 8)[0].cancel(12)
    with pytest.raises(NoInformation):
        acting("", 1)[0].cancel(12)


@pytest.mark.parametrize("verb", ["hold", "release", "requeue"])
def test_the_other_requests_are_refused_or_unanswered_too(verb: str) -> None:
    with pytest.raises(Refused, match="denied"):
        getattr(acting("Access/permission denied for job 10_2\n", 1)[0], verb)(12)
    with pytest.raises(NoInformation):
        getattr(acting("slurm_update error: Socket timed out on send/recv operation\n", 1)[0], verb)(12)
    with pytest.raises(Refused):
        getattr(acting("10_2: Job has already finished\n", 1)[0], verb)(12)


def test_a_cluster_that_the_option_cannot_reach_is_silence_whatever_is_asked() -> None:
    out = reply(stderr=f"scontrol: {UNREACHED}", code=1)
    slurm, _ = backend(squeue=out, scontrol=out, scancel=out)
    questions = [lambda: slurm.queue(None), lambda: slurm.job(7), lambda: slurm.script(7), slurm.nodes, slurm.info]
    acts = [lambda: slurm.cancel(7), lambda: slurm.hold(7), lambda: slurm.release(7), lambda: slurm.requeue(7)]
    for call in (*questions, *acts):
        with pytest.raises(NoInformation):
            call()
