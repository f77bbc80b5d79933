"""`chainwatch diagnose JOBID` of a job that a chain ran: the chain knows its logs, its checkpoints and its past."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.cli import diagnose_job
from chainwatch.cli.__main__ import main
from chainwatch.cli.diagnose_job import JobFacts, NotFound
from chainwatch.config.models import Chain
from chainwatch.model.chain import Attempt, Mode
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.model.verdict import Evidence, LogEvidence
from chainwatch.slurm import NoInformation
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin

NOW = datetime.now(UTC).replace(microsecond=0)
ECC = "[rank6]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
CORRUPT = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"


def a_job(job_id: int, hours: float, state: JobState = JobState.FAILED) -> Job:
    """As an accounting that knows no log has it."""
    start = NOW - timedelta(hours=hours)
    return Job(
        AttemptId("alpha", job_id, start), str(job_id), state, Source.ACCOUNTING, exit=ExitCode(1), start=start,
        end=start + timedelta(minutes=30), nodes=("n1",), user="ada",
    )  # fmt: skip


class Desk:
    """A chain of two attempts: the first was judged, of the second only Slurm knows that it is over."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys = folder, capsys
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\n#SBATCH -o logs/%j.out\n")
        (folder / "logs").mkdir()
        (folder / "ckpt").mkdir()
        (folder / "logs" / "12.out").write_text(ECC)
        settings = Chain.model_validate({"batch": script, "directory": folder, "checkpoints": str(folder / "ckpt")})
        self.jobs = {11: a_job(11, 3), 12: a_job(12, 1)}
        torn = datetime.timestamp(NOW - timedelta(hours=4.77))
        saves = (
            Checkpoint("/c/step_1", 1, "dcp", Status.INTACT, "checked"),
            Checkpoint("/c/step_2", 2, "dcp", Status.DAMAGED, "cut", modified=torn),
        )
        self.judged = Evidence(
            self.jobs[11],
            frozenset({Source.ACCOUNTING}),
            LogEvidence(("/gone/11.out",)),
            checkpoints=RunReport("/c", "dcp", saves, saves[0]),
            resumed_from="/c/step_2",
            ended_by_us="it hung: no progress for an hour",
        )
        store = open_store(folder / "state")
        store.add_chain(
            ChainRecord("run", "alpha", Origin.CONFIG, Mode.ACT, settings.model_dump(mode="json"), NOW, sentence="x")
        )
        store.put_attempt("run", Attempt(a_job(10, 5.25), 1, True, ended=NOW - timedelta(hours=4.75)))
        store.put_attempt("run", Attempt(self.jobs[11], 2, True))
        store.put_evidence("run", 2, self.judged)
        store.put_attempt(
            "run", Attempt(replace(self.jobs[12], state=JobState.RUNNING), 3, True, resumed_from="/c/step_1")
        )
        store.close()
        self.slurm: Callable[[str], Job] = lambda text: self.jobs[int(text)]
        patch.setattr(diagnose_job, "facts_of", self._facts)

    def _facts(self, text: str, cluster: str = "") -> JobFacts:
        return JobFacts(self.slurm(text), frozenset({Source.ACCOUNTING}), (), ("/nowhere/slurm.out",), 1001)

    def says(self, error: Exception) -> None:
        """What Slurm answers from now on."""

        def fails(text: str) -> Job:
            raise error

        self.slurm = fails

    def diagnose(self, *words: str) -> tuple[int, dict[str, Any], str]:
        code = main(["diagnose", *words, "--json", "--state-directory", str(self.folder / "state")])
        out, err = self._capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    def page(self, *words: str) -> str:
        assert main(["diagnose", *words, "--state-directory", str(self.folder / "state")]) == 0
        return self._capsys.readouterr().out


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.delenv("CHAINWATCH_DATABASE", raising=False)
    return Desk(tmp_path, capsys, monkeypatch)


def test_a_job_that_is_not_judged_yet_is_judged_by_the_logs_that_its_chain_names(desk: Desk) -> None:
    code, said, _ = desk.diagnose("12")
    assert (code, said["cause"]) == (0, "hardware_gpu"), "accounting knows no log, the script does"
    assert said["chain"] == {
        "name": "run", "attempt": 3, "resumed_from": "/c/step_1", "newest_intact": None, "newest_intact_step": None,
        "logs": [str(desk.folder / "logs" / "12.out")],
    }  # fmt: skip


def test_a_job_that_was_judged_is_told_by_what_was_known_then(desk: Desk) -> None:
    """Its checkpoints may be gone, and its logs written into by a later attempt."""
    code, said, _ = desk.diagnose("11")
    assert (code, said["outcome"]) == (0, "hung"), "chainwatch ended it: Slurm does not know why"
    page = desk.page("11")
    assert "chain       run, attempt 2" in page
    assert "resumed     from /c/step_2" in page
    assert "newest save /c/step_1 (step 1), intact" in page
    assert "not intact  /c/step_2" in page


def test_the_attempt_that_tore_the_checkpoint_is_named_as_the_daemon_names_it(desk: Desk) -> None:
    log = desk.folder / "logs" / "11.out"
    log.write_text(CORRUPT)
    store = open_store(desk.folder / "state")
    unread = LogEvidence((str(log),), readable=False, problem="the storage did not answer")
    store.put_evidence("run", 2, replace(desk.judged, ended_by_us="", logs=unread))
    store.close()
    assert "step_2 was torn by attempt 1 (job 10)" in desk.page("11")


def test_what_slurm_has_forgotten_the_chain_remembers_but_silence_is_no_answer(desk: Desk) -> None:
    desk.says(NotFound("Slurm knows no job; is it the right cluster?"))
    assert desk.diagnose("11")[1]["outcome"] == "hung"
    assert desk.diagnose("12")[1]["cause"] == "hardware_gpu"
    assert desk.diagnose("99")[0] == 2
    desk.says(NoInformation("connect failure"))
    assert desk.diagnose("11")[1]["outcome"] == "hung", "it was judged"
    code, _, err = desk.diagnose("12")
    assert (code, "connect failure" in err) == (4, True)


def test_a_job_of_nobody_and_a_state_that_cannot_be_read_are_diagnosed_all_the_same(desk: Desk) -> None:
    desk.jobs[13] = a_job(13, 1)
    code, said, _ = desk.diagnose("13")
    assert (code, "chain" in said) == (0, False)
    (desk.folder / "state" / "chainwatch.db").write_bytes(b"no database" * 1000)
    code, said, err = desk.diagnose("12")
    assert (code, "chain" in said, "left out" in err) == (0, False, True)


def test_a_job_that_no_poll_has_shown_yet_is_of_the_chain_that_submitted_it(desk: Desk) -> None:
    store = open_store(desk.folder / "state")
    expected = {"job_id": 14, "since": NOW.isoformat(), "token": "t", "resume": "/c/step_1"}
    store.update_chain("run", facts={"expected": expected})
    store.close()
    desk.jobs[14] = a_job(14, 0.75)
    (desk.folder / "logs" / "14.out").write_text(ECC)
    said = desk.diagnose("14")[1]
    assert (said["cause"], said["chain"]["attempt"], said["chain"]["resumed_from"]) == ("hardware_gpu", 4, "/c/step_1")
