"""`chainwatch diagnose JOBID`: Slurm's answers joined, the logs found."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chainwatch.cli import diagnose_job
from chainwatch.cli.common import guarded
from chainwatch.cli.diagnose import run
from chainwatch.cli.diagnose_job import NotFound, facts_of, logs_of
from chainwatch.diagnosis import diagnose
from chainwatch.model.job import Job, Source
from chainwatch.model.verdict import Cause, Evidence, LogEvidence, Outcome
from chainwatch.slurm import NoInformation
from chainwatch.slurm.cli import CliBackend
from chainwatch.slurm.process import Reply
from tests.slurm.fake import backend, reply, sacct_says
from tests.slurm.test_recorded import RELEASES, accounting

GONE = reply(stderr="slurm_load_jobs error: Invalid job id specified", code=1)
DOWN = reply(stderr="slurm_load_jobs error: Unable to contact slurm controller (connect failure)", code=1)


def a_row(**more: str) -> Mapping[str, str]:
    return {"JobID": "7", "JobIDRaw": "7", "State": "FAILED", "ExitCode": "1:0", **more}


def test_accounting_alone_is_enough_when_the_controller_forgot_the_job() -> None:
    cluster, _ = backend(sacct=sacct_says(a_row(NodeList="")), scontrol=GONE)
    facts = facts_of("7", backend=cluster)
    assert facts.job.state == "FAILED"
    assert Source.ACCOUNTING in facts.sources


@pytest.mark.parametrize(
    "config", [reply("ClusterName             = big\nSLURM_VERSION           = 24.11.5\n"), DOWN], ids=["up", "down"]
)
def test_the_rows_of_the_cluster_of_this_shell_count_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, config: Reply
) -> None:
    _, clients = backend(
        sacct=sacct_says(a_row(NodeList="", Cluster="big")),
        scontrol=lambda command: config if "config" in command else GONE if config is not DOWN else DOWN,
    )
    monkeypatch.setattr(
        diagnose_job,
        "CliBackend",
        lambda name, **_: CliBackend(name, bin_dir="/nowhere", run=clients, environment={"PATH": "/usr/bin"}),
    )
    assert facts_of("7").job.state == "FAILED"


def test_no_answer_and_no_such_job_are_told_apart() -> None:
    cluster, _ = backend(sacct=sacct_says(), scontrol=GONE)
    with pytest.raises(NotFound, match="Slurm knows no job 7; is it"):
        facts_of("7", backend=cluster)
    cluster, _ = backend(sacct=reply(stderr="sacct: error: Problem talking to the database", code=1), scontrol=DOWN)
    with pytest.raises(NoInformation, match="connect failure"):
        facts_of("7", backend=cluster)
    cluster, _ = backend(sacct=sacct_says(), scontrol=DOWN)
    with pytest.raises(NoInformation, match="no full answer on job 7"):
        facts_of("7", backend=cluster)


def test_a_slurm_that_cannot_be_reached_knows_neither_this_job_nor_that_it_is_absent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_source = "fatal: Could not establish a configuration source\n"
    cluster, _ = backend(
        sacct=reply(stderr=f"sacct: {no_source}", code=1), scontrol=reply(stderr=f"scontrol: {no_source}", code=1)
    )
    monkeypatch.setattr(diagnose_job, "CliBackend", lambda *_, **__: cluster)
    assert guarded(lambda: sys.exit(run(["7"])), debug=False) == 4
    assert "knows no job" not in capsys.readouterr().err


def test_an_array_task_is_asked_for_by_the_name_that_people_use() -> None:
    rows = (a_row(JobID="7_2", JobIDRaw="9"), a_row(JobID="7_3", JobIDRaw="10", State="TIMEOUT"))
    cluster, clients = backend(sacct=sacct_says(*rows), scontrol=GONE)
    facts = facts_of("7_3", backend=cluster)
    assert (facts.job.job_id, facts.job.state) == (10, "TIMEOUT")
    assert any("--jobs=7_3" in call for call in clients.calls)


def test_logs_of_tasks_are_found_beside_the_batch_scripts(tmp_path: Path) -> None:
    for name in ("out-7-0", "out-7-1", "out-8-0"):
        (tmp_path / name).touch()
    (job,) = [j for jobs in accounting("24.11").values() for j in jobs][:1]
    job = Job(job.attempt, "7", job.state, job.source, directory=str(tmp_path), stdout="out-%j-%t")
    job = job.merged(job)
    found = {Path(path).name for path in logs_of(job)}
    assert {f"out-{job.job_id}-0"} <= found


def test_the_whole_way_from_a_job_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "7.out").write_text("RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    row = a_row(WorkDir=str(tmp_path), StdOut="%j.out", StdErr="", NodeList="n1")
    cluster, _ = backend(sacct=sacct_says(row), scontrol=GONE)
    monkeypatch.setattr(diagnose_job, "CliBackend", lambda *_, **__: cluster)
    assert run(["7", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["cause"], answer["culprit_nodes"]) == ("hardware_gpu", ["n1"])


SEEN = [
    ("c-exit1", Outcome.FAILED, {Cause.UNKNOWN}),
    ("c-sigkill-self", Outcome.FAILED, {Cause.OOM_HOST}),
    ("c-segv-self", Outcome.FAILED, {Cause.UNKNOWN}),
    ("c-exit137", Outcome.FAILED, {Cause.OOM_HOST}),
    ("c-step-segv", Outcome.FAILED, {Cause.UNKNOWN}),
    ("c-step-exit3-batch0", Outcome.FAILED, {Cause.UNKNOWN, Cause.OOM_HOST}),
    ("c-timeout", Outcome.TIMED_OUT, {Cause.TIME_LIMIT}),
    ("c-timeout-trap0", Outcome.TIMED_OUT, {Cause.TIME_LIMIT}),
    ("c-timeout-trap1", Outcome.TIMED_OUT, {Cause.TIME_LIMIT}),
    ("c-cancel-run", Outcome.CANCELLED, {Cause.CANCELLED_BY_USER}),
    ("c-cancel-trap0", Outcome.CANCELLED, {Cause.CANCELLED_BY_USER}),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("name", "outcome", "causes"), SEEN, ids=[row[0] for row in SEEN])
def test_endings_that_real_clusters_recorded(release: str, name: str, outcome: Outcome, causes: set[Cause]) -> None:
    job = accounting(release)[name][-1]
    verdict = diagnose(Evidence(job, frozenset({Source.ACCOUNTING}), LogEvidence(("log",)), user_uid=job.cancelled_by))
    assert verdict.outcome is outcome
    assert verdict.cause in causes
