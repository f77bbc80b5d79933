"""What every backend promises about reading. Nothing is changed: these cases may run against a live cluster."""

from __future__ import annotations

from datetime import timedelta

from chainwatch.model.job import JobState, Source
from chainwatch.slurm.contract.case import case
from chainwatch.slurm.contract.stage import CannotPlay, Stage, expect

NOBODYS_ID = 2_000_000_003
"""Above any MaxJobId (67,108,863): a job that no cluster ever had."""


@case()
def info_names_the_cluster(stage: Stage) -> None:
    """info() gives the cluster's name, its release and its timers."""
    info = stage.backend.info()
    expect(info.name == stage.backend.name, f"the cluster calls itself {info.name}, not {stage.backend.name}")
    expect(info.version.count(".") >= 1 and info.version[0].isdigit(), f"{info.version!r} is no release")
    expect(info.min_job_age >= 0 and info.message_timeout > 0, f"timers make no sense: {info}")


@case()
def queue_rows_are_whole(stage: Stage) -> None:
    """Every job of the queue has an identity, a user, a known state and the queue as its source."""
    for job in stage.backend.queue(None):
        expect(job.cluster == stage.backend.name, f"job {job.shown_id} is of cluster {job.cluster}")
        expect(job.source is Source.QUEUE, f"job {job.shown_id} comes from {job.source}")
        expect(job.attempt.submitted.tzinfo is not None, f"job {job.shown_id} has a submit time without a zone")
        expect(bool(job.user and job.shown_id), f"job {job.job_id} lacks user or shown id")
        expect(job.state is not JobState.UNKNOWN, f"job {job.shown_id} has the unknown state {job.raw_state!r}")
        expect(job.start is None or job.state is not JobState.PENDING, f"pending job {job.shown_id} has a start")
        expect((job.end is None) or job.state.terminal, f"live job {job.shown_id} has an end")


@case()
def identities_are_unique(stage: Stage) -> None:
    """No two jobs of the queue have the same identity."""
    seen = [job.attempt for job in stage.backend.queue(None)]
    expect(len(seen) == len(set(seen)), "two jobs of the queue share cluster, id and submit time")


@case()
def queue_of_one_user_is_part_of_all(stage: Stage) -> None:
    """queue(user) gives only that user's jobs."""
    strangers = [job.shown_id for job in stage.backend.queue(stage.user) if job.user != stage.user]
    expect(not strangers, f"jobs of others in the queue of {stage.user}: {strangers[:5]}")


@case()
def unknown_id_is_absent(stage: Stage) -> None:
    """An id that nobody has is None for the controller, for the job and for its script."""
    expect(stage.backend.job(NOBODYS_ID) is None, "the controller describes a job that no one has")
    expect(stage.backend.script(NOBODYS_ID) is None, "the controller has a script of a job that no one has")


@case()
def queue_and_controller_agree(stage: Stage) -> None:
    """job(id) describes the same attempt as the queue does."""
    listed = [job for job in stage.backend.queue(None) if not job.state.terminal][:3]
    if not listed:
        raise CannotPlay("the queue is empty")
    for job in listed:
        shown = stage.backend.job(job.job_id)
        if shown is None or shown.attempt != job.attempt:
            continue  # it was requeued or ended between the two questions
        expect(shown.source is Source.CONTROLLER, f"job {job.shown_id} comes from {shown.source}")
        expect(shown.name == job.name and shown.user == job.user, f"queue and controller differ over {job.shown_id}")
        expect(shown.directory == job.directory, f"queue and controller differ over {job.shown_id}'s directory")


@case()
def nodes_have_states(stage: Stage) -> None:
    """nodes() gives every node with a state; asked for one, just that one."""
    nodes = stage.backend.nodes()
    expect(bool(nodes), "a cluster without nodes")
    for node in nodes:
        expect(bool(node.name and node.state), f"node {node} lacks name or state")
        expect(node.state == node.state.lower(), f"state {node.state} of {node.name} is not lower case")
    first = nodes[0].name
    alone = [node.name for node in stage.backend.nodes([first])]
    expect(alone == [first], f"asked for {first}, got {alone}")


@case()
def unknown_id_has_no_record(stage: Stage) -> None:
    """An id that accounting does not know gives no row, and no error."""
    if not stage.backend.info().accounting:
        raise CannotPlay("the cluster has no accounting")
    expect(not stage.backend.accounting([NOBODYS_ID]), "accounting has a row of a job that no one has")
    expect(not stage.backend.accounting([]), "asked for no id, accounting gave rows")


@case()
def accounting_since_a_time_is_ordered(stage: Stage) -> None:
    """accounting(since=…) gives whole attempts, oldest first."""
    if not stage.backend.info().accounting:
        raise CannotPlay("the cluster has no accounting")
    rows = stage.backend.accounting(since=stage.now() - timedelta(hours=1), user=stage.user)
    times = [row.attempt.submitted for row in rows]
    expect(times == sorted(times), "the attempts are not oldest first")
    for row in rows:
        expect(row.source is Source.ACCOUNTING, f"{row.shown_id} comes from {row.source}")
        expect(row.user == stage.user, f"a row of {row.user} where {stage.user} was asked for")
