"""Traps in what squeue, sacct and scontrol print. Each has caught another tool; the names say what."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.model.job import ExitCode, JobState
from chainwatch.recovery import needs_person
from chainwatch.slurm.backend import NoInformation
from chainwatch.slurm.process import Reply, client_environment
from chainwatch.slurm.sacct import CHUNK, array_limit, chunks, known_fields
from chainwatch.slurm.scontrol import node_state, parse_jobs, parse_nodes
from chainwatch.slurm.tres import count, parse_size
from tests.slurm.fake import DATA, backend, reply, sacct_says, squeue_says

ODD = "crazy|name ^^^ a,b 'q' \"q\" =x \\n \\ end"


# -- delimiters, names, bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ODD, "two\nlines", "tab\tand\x1funit\x1erecord", "é ü 漢", "", " lead and trail "])
def test_a_job_name_or_comment_may_hold_anything_in_squeue(text: str) -> None:
    slurm, _ = backend(squeue=squeue_says({"Name": text, "Comment": text}, {"JobID": "8", "JobArrayID": "8"}))
    first, second = slurm.queue(None)
    assert (first.name, first.comment) == (text, text)
    assert second.job_id == 8


@pytest.mark.parametrize("text", [ODD, "srun bash -c echo hello &&\necho goodbye", "x\n7|y", "a\x1fb", "", "é"])
def test_a_submit_line_may_hold_anything_in_sacct(text: str) -> None:
    slurm, _ = backend(sacct=sacct_says({"SubmitLine": text, "JobName": text, "Comment": text}, {"JobIDRaw": "8"}))
    found = slurm.accounting([7, 8])
    assert [job.job_id for job in found] == [7, 8]
    assert found[0].submit_line == found[0].name == text


def test_a_literal_backslash_n_is_not_a_line_break() -> None:
    slurm, _ = backend(squeue=squeue_says({"Name": "a\\nb"}))
    assert slurm.queue(None)[0].name == "a\\nb"


def test_bytes_that_are_no_utf8_never_lose_the_list() -> None:
    slurm, _ = backend(
        squeue=squeue_says({"Name": b"f\xfcr dich a\xc3".decode("utf-8", "surrogateescape")}, {"JobID": "8"})
    )
    jobs = slurm.queue(None)
    assert len(jobs) == 2
    assert jobs[0].name.encode("utf-8", "surrogateescape") == b"f\xfcr dich a\xc3"


@pytest.mark.parametrize(
    "reason",
    [
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "ReqNodeNotAvail, UnavailableNodes:wn-db-05",
        "RaisedSignal:53(Real-time signal 19)",
        "launch failed requeued held",
    ],
)
def test_a_reason_is_one_field_whatever_it_holds(reason: str) -> None:
    slurm, _ = backend(squeue=squeue_says({"Reason": reason}))
    assert slurm.queue(None)[0].reason == reason


def test_a_pending_job_may_have_a_list_of_partitions() -> None:
    slurm, _ = backend(squeue=squeue_says({"Partition": "short,long,other", "State": "PENDING", "NodeList": ""}))
    assert slurm.queue(None)[0].partition == "short,long,other"


def test_a_release_that_drops_a_separator_is_not_read_with_its_columns_moved() -> None:
    def dropped(command: Sequence[str]) -> Reply:
        whole = squeue_says({}, {"JobID": "8"})(command).stdout
        field = whole.split(b"JOBID", 1)[1].split(b"STATE", 1)[0]
        head, _, rest = whole.rpartition(b"N/A" + field)
        return reply(head + b"N/A" + rest, command=command)

    with pytest.raises(NoInformation, match="fields where"):
        backend(squeue=dropped)[0].queue(None)


SHOWN = """JobId=12 ArrayJobId=10 ArrayTaskId=2 ArrayTaskThrottle=3 JobName=Name with spaces JobState=COMPLETED in it
   UserId=ann(1001) GroupId=ann(1001) MCS_label=N/A
   Priority=10 Nice=0 Account=lab QOS=normal
   JobState=FAILED Reason=ReqNodeNotAvail,_UnavailableNodes:wn-05 Dependency=(null)
   Requeue=1 Restarts=11 BatchFlag=1 Reboot=0 ExitCode=3:0
   DerivedExitCode=0:0
   RunTime=00:00:01 TimeLimit=365-00:00:00 TimeMin=N/A
   SubmitTime=1795973000 EligibleTime=1795973000
   AccrueTime=Unknown
   StartTime=1795973001 EndTime=1795973002 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=1795973001 Scheduler=Main
   Partition=short,long AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2-2 NumCPUs=8 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,node=2,gres/gpu:a100=16,gres/gpu=16
   JOB_GRES=gpu:ampere:16
     Nodes=n1 CPU_IDs=0-3 Mem=1 GRES=gpu:ampere:8(IDX:0-7)
     Nodes=n2 CPU_IDs=0-3 Mem=1 GRES=gpu:ampere:8(IDX:0-7)
   NtasksPerTRES:0
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/x/run.sh L721962 HBA_target key=v1=v2 JobState=RUNNING
   WorkDir=/x/with space
   Comment=** time_limit (60m) min_nodes (1) **
second line of it
   JobState=COMPLETED ExitCode=0:0
   StdErr=/x/e.log
   StdIn=StdIn=/dev/null
   StdOut=/x/o.log
   Power=

"""


def test_scontrol_is_read_by_known_keys_and_free_text_cannot_forge_them() -> None:
    (job,) = parse_jobs(SHOWN, "lab")
    assert job.state is JobState.FAILED
    assert job.exit == ExitCode(3)
    assert job.name == "Name with spaces JobState=COMPLETED in it"
    assert job.command == "/x/run.sh L721962 HBA_target key=v1=v2 JobState=RUNNING"
    assert job.directory == "/x/with space"
    assert job.comment.startswith("** time_limit (60m) min_nodes (1) **\nsecond line of it")
    assert job.stdout == "/x/o.log"


def test_scontrol_lists_the_ids_of_an_array_before_the_name() -> None:
    (job,) = parse_jobs(SHOWN, "lab")
    assert (job.array_job_id, job.array_task, job.array_limit, job.shown_id) == (10, "2", 3, "10_2")


def test_repeated_and_malformed_keys_of_details_are_tolerated() -> None:
    (job,) = parse_jobs(SHOWN, "lab")
    assert job.nodes == ("n1", "n2")
    assert job.gpus == 16
    assert job.restarts == 11


# -- job ids ----------------------------------------------------------------------------------------------------------


def _array_row(task: str, **more: str) -> dict[str, str]:
    return {"JobID": "30", "ArrayJobID": "30", "ArrayTaskID": task, "JobArrayID": f"30_{task}", **more}


def test_the_pending_rest_of_an_array_is_one_job_for_its_tasks_share_a_raw_id() -> None:
    pending = {"State": "PENDING", "NodeList": "", "Reason": "JobArrayTaskLimit"}
    running = {**_array_row("1"), "JobID": "31"}
    requeued = {**_array_row("2", **pending), "JobID": "32", "Reason": "BeginTime", "RestartCnt": "1"}
    rows = [running, requeued, *(_array_row(str(task), **pending) for task in (3, 4, 5, 9))]
    slurm, clients = backend(squeue=squeue_says(*rows))
    jobs = slurm.queue(None)
    assert [(job.job_id, job.array_task) for job in jobs] == [(31, "1"), (32, "2"), (30, "[3-5,9]")]
    assert "--array" in clients.calls[0]  # else squeue hides task 2 in the rest of the array


def test_one_pending_task_alone_is_a_task() -> None:
    slurm, _ = backend(squeue=squeue_says(_array_row("7", State="PENDING", NodeList="")))
    (job,) = slurm.queue(None)
    assert (job.array_task, job.shown_id) == ("7", "30_7")


def test_sacct_shows_the_rest_of_an_array_beside_its_finished_tasks() -> None:
    slurm, _ = backend(
        sacct=sacct_says(
            {"JobIDRaw": "31", "JobID": "30_1"},
            {
                "JobIDRaw": "30",
                "JobID": "30_[2-3%1]",
                "State": "PENDING",
                "End": "Unknown",
                "NodeList": "None assigned",
            },
        )
    )
    rest, done = sorted(slurm.accounting([30, 31]), key=lambda job: job.job_id)
    assert (rest.array_task, rest.array_limit, rest.state) == ("[2-3%1]", 1, JobState.PENDING)
    assert (done.array_task, done.array_job_id, done.state) == ("1", 30, JobState.COMPLETED)


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("sbatch --array=1-9%1 x.sh", 1),
        ("sbatch -a 1-9%3 x.sh", 3),
        ("sbatch -a1-9%2 x.sh", 2),
        ("sbatch --array=1-9 x.sh", None),
        ("sbatch x.sh", None),
        ("", None),
        ("sbatch --comment='a b --array=1", None),
    ],
)
def test_the_limit_of_an_array_is_on_its_submit_line(line: str, limit: int | None) -> None:
    assert array_limit(line) == limit


def test_het_components_have_raw_ids_of_their_own() -> None:
    row = {"JobID": "33", "JobArrayID": "32+1", "HetJobID": "32", "ArrayJobID": "33"}
    slurm, _ = backend(
        squeue=squeue_says(row),
        sacct=sacct_says(
            {"JobIDRaw": "33", "JobID": "32+1"}, {"JobIDRaw": "33.batch", "JobID": "32+1.batch", "JobName": "batch"}
        ),
    )
    (job,) = slurm.queue(None)
    (recorded,) = slurm.accounting([33])
    assert (job.job_id, job.het_job_id, job.shown_id) == (33, 32, "32+1")
    assert (recorded.job_id, recorded.het_job_id, [step.name for step in recorded.steps]) == (33, 32, ["batch"])


def test_steps_are_not_jobs() -> None:
    slurm, _ = backend(
        sacct=sacct_says(
            {"JobIDRaw": "7", "State": "TIMEOUT"},
            {"JobIDRaw": "7.batch", "State": "CANCELLED", "ExitCode": "0:15", "JobName": "batch"},
            {"JobIDRaw": "7.extern", "JobName": "extern"},
            {"JobIDRaw": "7.0", "State": "CANCELLED", "ExitCode": "0:10", "JobName": "python", "MaxRSS": "39503310K"},
        )
    )
    (job,) = slurm.accounting([7])
    assert [(step.name, str(step.exit)) for step in job.steps] == [("batch", "0:15"), ("extern", "0:0"), ("0", "0:10")]
    assert job.steps[2].max_rss == 39503310 * 1024
    assert job.steps[2].label == "python"


def test_an_id_that_an_older_job_once_had_gives_two_attempts_told_apart_by_their_submit_times() -> None:
    old = {"Submit": "1600000000", "JobName": "somebody else's"}
    slurm, _ = backend(sacct=sacct_says({"Submit": "1795973000", "JobName": "mine"}, old))
    first, second = slurm.accounting([7])
    assert (first.name, second.name) == ("somebody else's", "mine")
    assert first.attempt != second.attempt


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_requeued_job_has_an_old_row_that_is_over_and_a_new_one_that_lives() -> None:
    slurm, clients = backend(
        sacct=sacct_says(
            {"State": "REQUEUED", "Submit": "1795973000"},
            {"JobIDRaw": "7.batch", "State": "CANCELLED", "ExitCode": "0:9", "JobName": "batch"},
            {"State": "PENDING", "Submit": "1795973500", "Start": "Unknown", "End": "Unknown", "NodeList": ""},
        )
    )
    old, new = slurm.accounting([7])
    assert (old.state, old.end is not None, len(old.steps)) == (JobState.REQUEUED, True, 1)
    assert (new.state, new.end, new.start, new.steps) == (JobState.PENDING, None, None, ())
    assert "--duplicates" in clients.calls[-1]


def test_preempted_in_accounting_and_pending_in_the_queue_are_two_attempts() -> None:
    pending = {"State": "PENDING", "Reason": "BeginTime", "SubmitTime": "1795973500", "NodeList": ""}
    slurm, _ = backend(squeue=squeue_says(pending), sacct=sacct_says({"State": "PREEMPTED"}))
    (queued,) = slurm.queue(None)
    (recorded,) = slurm.accounting([7])
    assert queued.attempt != recorded.attempt
    assert recorded.state.may_return


@pytest.mark.parametrize("reason", ["launch_failed_requeued_held", "launch failed requeued held"])
def test_a_launch_failure_that_requeued_held_is_seen_to_be_held(reason: str) -> None:
    row = {"State": "PENDING", "Reason": reason, "PriorityLong": "0", "RestartCnt": "1", "NodeList": ""}
    slurm, _ = backend(squeue=squeue_says(row))
    (job,) = slurm.queue(None)
    assert job.held
    assert job.restarts == 1


def test_held_by_reason_alone_is_held_too() -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "PENDING", "Reason": "JobHeldAdmin", "NodeList": ""}))
    assert slurm.queue(None)[0].held


def test_a_dependency_that_failed_is_read_as_squeue_marks_it() -> None:
    row = {"State": "PENDING", "Reason": "DependencyNeverSatisfied", "Dependency": "afterok:22783211_*(failed)"}
    slurm, _ = backend(squeue=squeue_says({**row, "NodeList": ""}))
    job = slurm.queue(None)[0]
    assert (job.dependency, job.reason) == ("afterok:22783211_*(failed)", "DependencyNeverSatisfied")
    assert needs_person(job.reason)


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        (
            "MIXED+DRAIN+DYNAMIC_NORM+MAINTENANCE+RESERVED",
            "mixed",
            {"drain", "dynamic_norm", "maintenance", "reserved"},
        ),
        ("DOWN*", "down", {"not_responding"}),
        ("IDLE+DRAIN+NOT_RESPONDING", "idle", {"drain", "not_responding"}),
        ("idle~", "idle", {"powered_off"}),
        ("drain*", "idle", {"drain", "not_responding"}),
        ("draining@", "allocated", {"drain", "reboot_requested"}),
        ("mixed-", "mixed", {"planned"}),
        ("alloc", "allocated", set()),
    ],
)
def test_a_plus_in_a_nodes_state_is_a_flag_and_so_are_the_marks_behind_it(
    text: str, base: str, flags: set[str]
) -> None:
    assert node_state(text) == (base, frozenset(flags))


def test_a_nodes_reason_keeps_its_blanks_and_tells_who_and_when() -> None:
    (node,) = parse_nodes(
        "NodeName=n4 Arch=x86_64 CoresPerSocket=1\n   OS=Linux 6.18 #1 SMP State=IDLE Thu Jun 18\n"
        "   State=DOWN*+DRAIN ThreadsPerCore=1\n   Partitions=main,debug\n   BootTime=1795960000\n"
        "   Reason=Kill task failed [root@1795973000]\n"
    )
    assert (node.state, node.flags) == ("down", {"drain", "not_responding"})
    assert (node.reason, node.reason_by) == ("Kill task failed", "root")
    assert node.reason_at == datetime.fromtimestamp(1795973000, UTC)
    assert node.partitions == ("main", "debug")
    assert not node.usable


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [("256", ExitCode(1)), ("36608", ExitCode(143)), ("9", ExitCode(0, 9)), ("139", ExitCode(0, 11)),
     ("1:0", ExitCode(1)), ("0:9", ExitCode(0, 9)), ("0", ExitCode(0)), ("4294967294", None), ("", None)],
)  # fmt: skip
def test_squeue_prints_wait_statuses_up_to_23_02_and_codes_after(text: str, code: ExitCode | None) -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "FAILED", "exit_code": text}))
    assert slurm.queue(None)[0].exit == code


def test_the_exit_code_of_a_live_job_is_no_success() -> None:
    slurm, _ = backend(
        squeue=squeue_says({"State": "RUNNING", "exit_code": "0:0"}), sacct=sacct_says({"State": "RUNNING"})
    )
    assert slurm.queue(None)[0].exit is None
    assert slurm.accounting([7])[0].exit is None


def test_a_signal_in_the_code_is_no_success() -> None:
    slurm, _ = backend(sacct=sacct_says({"State": "TIMEOUT", "ExitCode": "0:15"}))
    code = slurm.accounting([7])[0].exit
    assert code is not None
    assert not code.ok


def test_the_batch_step_of_a_dead_node_has_no_code_at_all() -> None:
    slurm, _ = backend(
        sacct=sacct_says({"State": "NODE_FAIL"}, {"JobIDRaw": "7.batch", "State": "CANCELLED", "ExitCode": ""})
    )
    assert slurm.accounting([7])[0].steps[0].exit is None


@pytest.mark.parametrize(
    ("state", "code", "ok"),
    [
        ("TIMEOUT", "0:0", True),
        ("CANCELLED by 7", "0:0", True),
        ("OUT_OF_MEMORY", "0:125", False),
        ("FAILED", "127:0", False),
        ("FAILED", "6:0", False),
    ],
)
def test_the_state_says_what_it_was_and_the_code_only_adds_to_it(state: str, code: str, ok: bool) -> None:
    slurm, _ = backend(sacct=sacct_says({"State": state, "ExitCode": code, "DerivedExitCode": "0:6"}))
    job = slurm.accounting([7])[0]
    assert job.state.terminal
    assert job.state is not JobState.COMPLETED
    assert job.exit is not None
    assert job.exit.ok is ok
    assert job.derived_exit == ExitCode(0, 6)


def test_a_step_has_no_derived_code_and_its_signal_is_its_own() -> None:
    step = {"JobIDRaw": "7.0", "State": "FAILED", "ExitCode": "6:0", "DerivedExitCode": ""}
    job = backend(sacct=sacct_says({"State": "FAILED", "ExitCode": "0:0", "DerivedExitCode": "0:6"}, step))[0]
    assert str(job.accounting([7])[0].steps[0].exit) == "6:0"


# -- times ------------------------------------------------------------------------------------------------------------


def test_a_pending_jobs_start_is_a_forecast_and_no_start() -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "PENDING", "NodeList": "", "StartTime": "1795999999"}))
    job = slurm.queue(None)[0]
    assert job.start is None
    assert job.end is None


def test_a_running_jobs_end_is_its_limit_and_no_end() -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "RUNNING", "EndTime": "1795999999"}))
    assert slurm.queue(None)[0].end is None


@pytest.mark.parametrize("start", ["None", "Unknown", "1795973100"])
def test_a_job_cancelled_while_pending_never_started(start: str) -> None:
    row = {"State": "CANCELLED by 1001", "Start": start, "NodeList": "None assigned"}
    slurm, _ = backend(sacct=sacct_says(row), squeue=squeue_says({"State": "CANCELLED", "NodeList": ""}))
    job = slurm.accounting([7])[0]
    assert (job.start, job.cancelled_by, job.nodes) == (None, 1001, ())
    assert slurm.queue(None)[0].start is None


@pytest.mark.parametrize("text", ["UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit"])
def test_words_for_limits_are_no_limit(text: str) -> None:
    slurm, _ = backend(squeue=squeue_says({"TimeLimit": text}), sacct=sacct_says({"TimelimitRaw": text}))
    assert slurm.queue(None)[0].time_limit is None
    assert slurm.accounting([7])[0].time_limit is None


def test_a_time_limit_of_days() -> None:
    slurm, _ = backend(squeue=squeue_says({"TimeLimit": "14-00:00:00"}), sacct=sacct_says({"TimelimitRaw": "20160"}))
    assert slurm.queue(None)[0].time_limit == slurm.accounting([7])[0].time_limit == timedelta(days=14)


def test_the_preemption_time_is_read_while_the_job_still_runs() -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "RUNNING", "PreemptTime": "1795973200"}))
    assert slurm.queue(None)[0].preempted_at == datetime.fromtimestamp(1795973200, UTC)


def test_accounting_is_asked_since_a_time_in_words_that_need_no_zone_of_the_caller() -> None:
    slurm, clients = backend(sacct=sacct_says())
    slurm.accounting(since=datetime(2026, 11, 29, 18, 0, tzinfo=UTC), user="ann")
    assert "--starttime=2026-11-29T18:00:00" in clients.calls[-1]
    assert clients.environments[-1]["TZ"] == "UTC"


def test_accounting_is_never_asked_for_its_default_window_which_begins_at_midnight() -> None:
    slurm, clients = backend(sacct=sacct_says())
    slurm.accounting([7])
    slurm.accounting(since=datetime(2026, 11, 29, tzinfo=UTC), user="ann")
    asked = [call for call in clients.calls if "--helpformat" not in call]
    assert len(asked) == 2
    assert all(any(word.startswith(("--jobs=", "--starttime=")) for word in call) for call in asked)


def test_a_step_that_ended_the_day_after_its_job_is_still_its_step() -> None:
    midnight = 1795996800
    job = {"End": str(midnight - 2)}
    step = {"JobIDRaw": "7.0", "End": str(midnight + 22)}
    read = backend(sacct=sacct_says(job, step))[0].accounting([7])[0]
    assert read.end is not None
    assert [s.end - read.end for s in read.steps if s.end] == [timedelta(seconds=24)]


# -- resources and nodes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=4,gres/gpu:a100=8,gres/gpu=8", 8),
        ("cpu=4,gres/gpu:a100=4,gres/gpu:h100=4", 8),
        ("cpu=4", None),
        ("", None),
        ("N/A", None),
    ],
)
def test_the_same_gpu_is_not_counted_twice(text: str, gpus: int | None) -> None:
    assert count(text, "gres/gpu") == gpus


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6972K", 6972 * 1024),
        ("2.25G", int(2.25 * 2**30)),
        ("13392806", 13392806),
        ("0", 0),
        ("", None),
        ("64Gn", 2**36),
    ],
)
def test_sizes_are_in_units_of_1024_and_a_bare_number_is_bytes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "cpus"), [("8", 8), ("1-4", 1), ("16-16", 16), ("1K", None), ("", None)])
def test_a_number_of_cpus_that_is_a_range_or_a_word_is_no_false_number(text: str, cpus: int | None) -> None:
    (job,) = parse_jobs(SHOWN.replace("NumCPUs=8", f"NumCPUs={text}"), "lab")
    assert job.cpus == cpus


def test_no_nodes_in_the_system_is_an_answer() -> None:
    assert list(backend(scontrol=reply("No nodes in the system\n"))[0].nodes()) == []


@pytest.mark.parametrize("text", ["None assigned", "(null)", "", "N/A"])
def test_no_nodes_are_no_nodes(text: str) -> None:
    slurm, _ = backend(squeue=squeue_says({"NodeList": text}), sacct=sacct_says({"NodeList": text}))
    assert slurm.queue(None)[0].nodes == ()
    assert slurm.accounting([7])[0].nodes == ()


# -- commands, permissions, environment -------------------------------------------------------------------------------


def test_every_state_and_hidden_partition_is_asked_for_in_one_call() -> None:
    slurm, clients = backend(squeue=squeue_says())
    assert slurm.queue("ann") == ()
    (call,) = clients.calls
    assert {"--states=all", "--all", "--local", "--user=ann", "--noconvert"} <= set(call)
    assert not any("json" in word for word in call), "text: JSON of a long queue takes a gigabyte"


def test_the_environment_of_the_caller_changes_nothing() -> None:
    hostile = {
        "PATH": "/usr/bin", "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "PD", "SQUEUE_USERS": "x", "SQUEUE_ARRAY": "1",
        "SACCT_FORMAT": "jobid", "SINFO_FORMAT": "%n", "SCONTROL_ALL": "1", "SLURM_CLUSTERS": "other",
        "SLURM_TIME_FORMAT": "relative", "SLURM_BITSTR_LEN": "64", "LC_ALL": "de_DE", "LANGUAGE": "de", "TZ": "CET",
        "SLURM_CONF": "/old.conf", "SLURM_JWT": "token", "SLURM_JOB_ID": "1",
    }  # fmt: skip
    clean = client_environment(hostile, "/new.conf")
    assert clean == {
        "PATH": "/usr/bin", "SLURM_CONF": "/new.conf", "SLURM_JWT": "token", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8",
        "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0",
    }  # fmt: skip
    assert client_environment(hostile, None)["SLURM_CONF"] == "/old.conf"


def test_an_unknown_id_is_absent_and_nothing_else_is() -> None:
    absent = reply(stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    noisy = reply(stderr="Lmod: loading modules\nslurm_load_jobs error: Invalid job id specified\n", code=1)
    down = reply(stderr="slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", code=1)
    both = reply(stderr="squeue: error: Munge decode failed\nslurm_load_jobs error: Invalid job id specified\n", code=1)
    assert backend(scontrol=absent)[0].job(5) is None
    assert backend(scontrol=noisy)[0].job(5) is None
    for silence in (down, both, reply(code=1), reply()):
        with pytest.raises(NoInformation):
            backend(scontrol=silence)[0].job(5)


def test_an_array_id_whose_own_record_is_gone_is_absent_though_its_tasks_are_shown() -> None:
    assert backend(scontrol=reply(SHOWN))[0].job(10) is None


@pytest.mark.parametrize(
    "answer",
    [
        reply(stderr="slurm_load_jobs error: Socket timed out on send/recv operation\n", code=1),
        reply("CLUSTER: amarel\n", "squeue: error: Unable to contact slurm controller (connect failure)\n"),
        reply("CLUSTER: amarel\n"),
        reply(""),
        reply("", code=-9),
        reply("No jobs in the system\n"),
        reply("JOBID PARTITION NAME\n"),
    ],
)
def test_a_controller_that_is_down_never_looks_like_an_empty_queue(answer: Reply) -> None:
    with pytest.raises(NoInformation):
        backend(squeue=answer)[0].queue(None)


def test_an_empty_queue_is_an_answer_when_the_header_is_there() -> None:
    assert backend(squeue=squeue_says())[0].queue(None) == ()


def test_noise_of_login_scripts_on_stderr_is_only_noise() -> None:
    def noisy(command: Sequence[str]) -> Reply:
        good = squeue_says({})(command)
        return reply(good.stdout, "Welcome to cluster X!\nmodule: warning: no such module\n", command=command)

    assert len(backend(squeue=noisy)[0].queue(None)) == 1


def test_an_error_on_stderr_beside_a_good_answer_is_no_information() -> None:
    def half(command: Sequence[str]) -> Reply:
        return reply(squeue_says({})(command).stdout, "squeue: error: Munge decode failed\n", command=command)

    with pytest.raises(NoInformation, match="Munge decode failed"):
        backend(squeue=half)[0].queue(None)


def test_a_cut_answer_is_no_shorter_queue() -> None:
    def cut(command: Sequence[str]) -> Reply:
        whole = squeue_says({}, {"JobID": "8"})(command).stdout
        return reply(whole[: len(whole) - 20], command=command)

    with pytest.raises(NoInformation, match="cut"):
        backend(squeue=cut)[0].queue(None)
    with pytest.raises(NoInformation, match="no header"):
        backend(squeue=squeue_says({}, header=False))[0].queue(None)


@pytest.mark.parametrize("at", range(1, 60, 7))
def test_a_cut_answer_of_accounting_is_none(at: int) -> None:
    def cut(command: Sequence[str]) -> Reply:
        whole = sacct_says({}, {"JobIDRaw": "8"})(command)
        return whole if "--helpformat" in command else reply(whole.stdout[:-at], command=command)

    if at == 1:  # only the last line break is missing: every field is there
        assert len(backend(sacct=cut)[0].accounting([7, 8])) == 2
    else:
        with pytest.raises(NoInformation):
            backend(sacct=cut)[0].accounting([7, 8])


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        ("sacct: error: Problem talking to the database: Connection refused\n", 1),
        ("sacct: error: Problem talking to the database: Connection refused\n", 0),
        ("Slurm accounting storage is disabled\n", 1),
        ("Slurm accounting storage is disabled\n", 0),
        ("", 1),
    ],
)
def test_accounting_that_is_down_or_disabled_is_no_information(stderr: str, code: int) -> None:
    with pytest.raises(NoInformation):
        backend(sacct=sacct_says(stderr=stderr, code=code))[0].accounting([7])


def test_accounting_without_a_header_is_no_information_and_with_one_it_knows_no_such_job() -> None:
    with pytest.raises(NoInformation, match="no header"):
        backend(sacct=sacct_says(header=False))[0].accounting([7])
    assert backend(sacct=sacct_says())[0].accounting([7]) == []


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_only_fields_that_the_release_has_are_asked_for(release: str) -> None:
    listed = (DATA / f"helpformat-{release}.txt").read_text()
    fields = known_fields(listed)
    assert {name.lower() for name in fields} <= {word.lower() for word in listed.split()}
    assert ("Restarts" in fields) is (release != "22.05")
    slurm, clients = backend(sacct=sacct_says({}, fields=listed))
    assert len(slurm.accounting([7])) == 1
    assert f"--format={','.join(fields)}" in clients.calls[-1]


def test_a_release_that_changed_under_us_is_asked_for_its_fields_again() -> None:
    slurm, clients = backend(sacct=sacct_says({}))
    slurm.accounting([7])
    clients.answers["sacct"] = reply(stderr='sacct: error: Invalid field requested: "restarts"\n', code=1)
    with pytest.raises(NoInformation):
        slurm.accounting([7])
    clients.answers["sacct"] = sacct_says({}, fields=(DATA / "helpformat-22.05.txt").read_text())
    assert len(slurm.accounting([7])) == 1


def test_a_list_of_fields_that_is_none_is_not_taken_for_one() -> None:
    with pytest.raises(NoInformation, match="helpformat"):
        known_fields("sacct: unrecognized option\n")


def test_many_ids_are_asked_for_in_chunks_and_none_is_lost() -> None:
    ids = range(10_000_000, 10_020_000)
    parts = list(chunks(ids))
    assert all(len(part) <= CHUNK for part in parts)
    assert [int(word) for part in parts for word in part.split(",")] == list(ids)
    assert len(parts) == 3


def test_an_array_asked_for_by_its_id_does_not_bring_its_other_tasks() -> None:
    slurm, _ = backend(sacct=sacct_says({"JobIDRaw": "31", "JobID": "30_1"}, {"JobIDRaw": "30", "JobID": "30_2"}))
    assert [job.job_id for job in slurm.accounting([30])] == [30]


def test_rows_of_another_cluster_of_the_federation_are_left_out() -> None:
    slurm, _ = backend(sacct=sacct_says({"Cluster": "other"}, {"Cluster": "lab", "JobIDRaw": "8"}))
    assert [job.job_id for job in slurm.accounting([7, 8])] == [8]


def test_a_sibling_that_was_revoked_is_not_an_end_of_the_job() -> None:
    slurm, _ = backend(squeue=squeue_says({"State": "REVOKED", "NodeList": ""}))
    assert slurm.queue(None)[0].state is JobState.REVOKED


def test_a_header_line_of_another_cluster_is_passed_over() -> None:
    def answer(command: Sequence[str]) -> Reply:
        return reply(b"CLUSTER: lab\n" + squeue_says({})(command).stdout, command=command)

    assert len(backend(squeue=answer)[0].queue(None)) == 1


def test_a_half_recorded_job_is_not_called_allocation() -> None:
    row = {"JobName": "allocation", "QOS": "Unknown", "Partition": ""}
    job = backend(sacct=sacct_says(row))[0].accounting([7])[0]
    assert (job.name, job.qos) == ("", "")


def test_a_step_without_its_job_is_no_answer() -> None:
    with pytest.raises(NoInformation, match="step without its job"):
        backend(sacct=sacct_says({"JobIDRaw": "9.batch"}))[0].accounting([7])


@pytest.mark.parametrize(
    ("line", "release"),
    [("22.05.8", "22.05.8"), ("24.11.7", "24.11.7"), ("25.05.0-0rc1", "25.05.0-0rc1"), ("21.08.8-2", "21.08.8-2")],
)
def test_a_release_is_taken_as_it_is_printed(line: str, release: str) -> None:
    text = f"Configuration data as of 1795973000\nClusterName             = lab\nSLURM_VERSION = {line}\n"
    text += "MinJobAge               = 15 sec\nMessageTimeout          = 10 sec\nAccountingStorageType = (null)\n"
    info = backend(scontrol=reply(text))[0].info()
    assert (info.version, info.min_job_age, info.message_timeout, info.accounting) == (release, 15, 10, False)


def test_no_shell_ever_sees_an_argument() -> None:
    slurm, clients = backend(squeue=squeue_says())
    slurm.queue("ann; rm -rf /")
    assert "--user=ann; rm -rf /" in clients.calls[0]
    assert shlex.join(clients.calls[0]) != " ".join(clients.calls[0])
