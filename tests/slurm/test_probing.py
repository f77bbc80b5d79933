"""Looking into a running job: what is asked of srun and sstat, and what their answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from inspect import signature

import pytest

from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.probe import StepUsage
from chainwatch.slurm.backend import Inside, NoInformation, Refused
from chainwatch.slurm.cli import CliBackend
from chainwatch.slurm.probing import parse_usage
from chainwatch.slurm.process import Reply, TimedOut
from chainwatch.slurm.pyslurm import PyslurmBackend
from tests.slurm.fake import backend, reply

JOB = Job(
    AttemptId("lab", 7, datetime(2026, 3, 1, tzinfo=UTC)), "7", JobState.RUNNING, Source.QUEUE, nodes=("n1", "n2")
)  # fmt: skip


def test_every_real_backend_can_look_into_jobs() -> None:
    for kind in (CliBackend, PyslurmBackend):
        assert {"probe", "usage"} <= set(dir(kind)), kind
        for name in ("probe", "usage"):
            wanted, given = signature(getattr(Inside, name)), signature(getattr(kind, name))
            assert list(wanted.parameters) == list(given.parameters)


def test_the_step_is_named_shares_all_and_takes_nothing_of_the_job() -> None:
    slurm, clients = backend(srun=reply("chainwatch-probe n1 ran\n"))
    assert slurm.probe(JOB, b"program", ["7", "3"]) == "chainwatch-probe n1 ran\n"
    words = clients.calls[0]
    for word in ("--jobid=7", "--overlap", "--nodes=2", "--ntasks-per-node=1", "--gres=none", "--mem=0", "--time=1"):
        assert word in words
    assert "--job-name=chainwatch-probe" in words
    assert words[-2:] == ("7", "3")


@pytest.mark.parametrize(
    ("stderr", "error"),
    [
        ("srun: error: Unable to create step for job 7: Access/permission denied", Refused),
        ("srun: error: Slurm job 7 has expired", Refused),
        ("srun: error: Unable to contact slurm controller (connect failure)", NoInformation),
        ("", NoInformation),
    ],
)
def test_a_step_that_may_not_be_started_is_a_refusal_and_silence_is_none(stderr: str, error: type[Exception]) -> None:
    slurm, _ = backend(srun=reply(stderr=stderr, code=1))
    with pytest.raises(error):
        slurm.probe(JOB, b"", [])


def test_what_some_nodes_said_counts_where_another_one_hangs() -> None:
    def late(command: Sequence[str], **_: object) -> Reply:
        raise TimedOut("srun gave no answer within 60 s", printed=b"chainwatch-probe n2 ran\n")

    slurm = CliBackend("lab", bin_dir="/nowhere", run=late, environment={"PATH": "/usr/bin"})
    assert slurm.probe(JOB, b"", []) == "chainwatch-probe n2 ran\n"


def test_sstat_tells_of_the_programs_own_steps_alone() -> None:
    text = (
        "7.extern|2|00:00:00|00:00:00|n1|0\n7.batch|1|00:00:01|00:00:01|n1|0\n7.0|8|00:10:02|00:01:00|n2|5\n7.1|||||\n"
    )
    assert parse_usage(text) == (StepUsage("0", 8, 602.0, 60.0, "n2", 5),)
    slurm, _ = backend(sstat=reply(text, "sstat: error: couldn't get steps for job 7"))
    assert slurm.usage(JOB)
    slurm, _ = backend(sstat=reply("", "sstat: error: couldn't get steps for job 7", 0))
    with pytest.raises(NoInformation):
        slurm.usage(JOB)


def test_another_clusters_steps_are_not_asked_of_sstat_which_would_answer_for_its_own() -> None:
    slurm = CliBackend("far", run=lambda *_, **__: pytest.fail("sstat was asked"), by_clusters_option=True)
    with pytest.raises(NoInformation, match="sstat asks its own cluster alone, not far"):
        slurm.usage(JOB)
