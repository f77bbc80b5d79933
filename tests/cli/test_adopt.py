"""Adopting what somebody submitted, on a simulated cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chainwatch.cli import adopt
from chainwatch.cli.__main__ import main
from chainwatch.config import load
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor.configured import first_record
from tests.simulation.lab import Lab, batch

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Desk:
    """A person's shell before the simulated cluster."""

    def __init__(self, state: Path, patch: pytest.MonkeyPatch) -> None:
        self.lab, self.state = Lab(), state
        patch.setattr(adopt.time, "sleep", self.lab.clock.sleep)
        patch.setattr(adopt.common, "now", self.lab.clock.now)
        patch.setattr(adopt, "backends", lambda config, store: {self.lab.backend.name: self.lab.backend})

    def array(self, tasks: str) -> int:
        """The number that sbatch prints. Some of its tasks run by now."""
        self.lab.script(batch(None), f"--array={tasks}")
        job_id = self.lab.submit()
        self.lab.clock.sleep(90)
        return job_id

    def adopt(self, job_id: int, *words: str) -> int:
        return main(["adopt", str(job_id), "--state", str(self.state), *words])

    def chains(self) -> dict[str, ChainRecord]:
        store = open_store(self.state)
        try:
            return {c.name: c for c in store.chains()}
        finally:
            store.close()

    def arrays(self) -> dict[str, object]:
        return {name: chain.facts["array"] for name, chain in self.chains().items()}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path / "state", monkeypatch)


@pytest.mark.parametrize("tasks", ["0-3%1", "3"])
def test_an_array_of_one_lane_or_of_one_task_is_adopted_as_one_chain(
    desk: Desk, capsys: pytest.CaptureFixture[str], tasks: str
) -> None:
    job_id = desk.array(tasks)
    assert desk.adopt(job_id) == 0
    assert desk.arrays() == {"job.sh": {"id": job_id, "task": None}}
    assert "is the chain job.sh now" in capsys.readouterr().out
    assert desk.adopt(job_id, "--name", "again") == 3, "it has a chain"


def test_an_array_whose_tasks_run_side_by_side_is_adopted_as_one_chain_a_task(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind: several jobs at a time taken for one chain, of which the next submission would start all again."""
    job_id = desk.array("2-4")
    assert desk.adopt(job_id, "--name", "sweep", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["chains"] == ["sweep.2", "sweep.3", "sweep.4"]
    assert desk.arrays() == {f"sweep.{n}": {"id": job_id, "task": str(n)} for n in (2, 3, 4)}
    assert desk.adopt(job_id, "--name", "again") == 3, "its tasks have chains"
    assert "belongs to the chain sweep.2" in capsys.readouterr().err


def test_any_component_of_a_het_job_stands_for_the_whole_of_it(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind: a part of a job taken for a job, so that one job had two chains."""
    desk.lab.script(batch(None))
    leader = desk.lab.submit("-n1", ":", "-n2", "--exclude=n4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.lab.backend, "accounting", lambda ids: [])
        assert desk.adopt(leader) == 2, "the command line is not known, and half a job is none"
    assert "several components" in capsys.readouterr().err
    assert desk.adopt(leader + 1, "--name", "het") == 0
    assert f"job {leader}+0 is the chain het now" in capsys.readouterr().out
    assert desk.chains()["het"].settings["sbatch"] == ["-n1", ":", "-n2", "--exclude=n4"]
    assert desk.adopt(leader, "--name", "again") == 3
    assert desk.adopt(leader + 1, "--name", "again") == 3
    assert list(desk.chains()) == ["het"]


def test_a_job_that_another_state_directory_submitted_is_taken_over_only_on_demand(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind: two daemons for one run."""
    desk.lab.script(batch(None))
    job_id = desk.lab.submit("--comment=mine chainwatch=0123abcd/llama/0123456789abcdef")
    assert desk.adopt(job_id) == 3
    assert "the chain llama of another state directory" in capsys.readouterr().err
    assert not desk.chains()
    assert desk.adopt(job_id, "--take-over") == 0


def test_what_was_adopted_is_shown_with_its_job_before_any_daemon_has_looked(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.lab.script(batch(None))
    single, many = desk.lab.submit("--job-name=a"), desk.array("2-3")
    assert desk.adopt(single) == desk.adopt(many, "--name=m") == 0
    capsys.readouterr()
    assert main(["status", "--json", "--state", str(desk.state)]) == 0
    shown = {row["chain"]: (row["job"], row["sentence"]) for row in json.loads(capsys.readouterr().out)}
    assert shown == {
        "a": (str(single), f"job {single} was adopted"),
        "m.2": (f"{many}_2", "adopted"),
        "m.3": (f"{many}_3", "adopted"),
    }


def configured(desk: Desk, tmp_path: Path, more: str = "") -> Path:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nsrun work\n")
    path = tmp_path / "chains.yaml"
    path.write_text(
        f"state: {desk.state}\nchains:\n  run7:\n    batch: {script}\n    resubmitter: {{by: script, grace: 2m}}\n{more}"
    )
    return path


def test_a_job_becomes_the_first_of_a_chain_that_a_configuration_describes(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind: `init JOBID` described a running job, and the only way on was a second job beside it."""
    desk.lab.script(batch(None))
    job_id = desk.lab.submit("--job-name=run7")
    config = configured(desk, tmp_path)
    assert desk.adopt(job_id, "-c", str(config)) == 0
    assert "is the first of the chain run7 now, in mode act" in capsys.readouterr().out
    chain = desk.chains()["run7"]
    assert chain.facts["expected"]["job_id"] == job_id
    assert chain.settings["resubmitter"] == {"by": "script", "grace": "2m", "match": "name+directory"}
    assert (chain.origin, str(chain.mode), chain.configuration) == ("config", "act", None)
    assert desk.adopt(job_id, "-c", str(config)) == 3
    other = desk.lab.submit("--job-name=else")
    assert desk.adopt(other, "-c", str(config), "--name", "run7") == 3
    assert "run7 has jobs already" in capsys.readouterr().err


def test_what_a_configuration_says_is_not_said_again_and_what_does_not_fit_it_is_refused(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.lab.script(batch(None))
    job_id = desk.lab.submit("--job-name=else")
    config = configured(desk, tmp_path)
    assert desk.adopt(job_id, "-c", str(config)) == 1
    assert "has no chain named else: --name says which of run7" in capsys.readouterr().err
    assert desk.adopt(job_id, "-c", str(config), "--done-step", "5") == 2
    assert desk.adopt(desk.array("2-3"), "-c", str(config), "--name", "run7") == 2
    assert "side by side" in capsys.readouterr().err
    assert "run7" not in desk.chains(), "nothing is registered by what is refused"


def test_a_name_that_the_configuration_has_is_answered_with_the_way_to_it(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.lab.script(batch(None))
    job_id = desk.lab.submit("--job-name=run7")
    config = load(configured(desk, tmp_path)).config
    store = open_store(desk.state, create=True)
    chain = config.chains["run7"]
    store.add_chain(first_record("run7", chain, chain.model_dump(mode="json"), [desk.lab.backend.name], NOW))
    store.close()
    assert desk.adopt(job_id, "--name", "run7") == 3
    assert "`chainwatch adopt JOBID --name run7 -c CONFIG`" in capsys.readouterr().err


def test_a_job_that_was_submitted_a_moment_ago_is_adopted_with_all_its_options(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind: accounting is seconds late, and what it does not say yet is taken for unknown."""
    desk.lab.script(batch(None))
    assert desk.adopt(desk.lab.submit("--qos=extra", "--nice=7"), "--name=run") == 0
    assert "not known in full" not in capsys.readouterr().err
    assert desk.chains()["run"].settings["sbatch"] == ["--qos=extra", "--nice=7"]
