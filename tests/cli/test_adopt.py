"""Adopting what somebody submitted, on a simulated cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainwatch.cli import adopt
from chainwatch.cli.__main__ import main
from chainwatch.store import open_store
from tests.simulation.lab import Lab, batch


class Desk:
    """A person's shell before the simulated cluster."""

    def __init__(self, state: Path, patch: pytest.MonkeyPatch) -> None:
        self.lab, self.state = Lab(), state
        patch.setattr(adopt, "backends", lambda config, store: {self.lab.backend.name: self.lab.backend})

    def array(self, tasks: str) -> int:
        """The number that sbatch prints. Some of its tasks run by now."""
        self.lab.script(batch(None), f"--array={tasks}")
        job_id = self.lab.submit()
        self.lab.clock.sleep(90)
        return job_id

    def adopt(self, job_id: int, *words: str) -> int:
        return main(["adopt", str(job_id), "--state", str(self.state), *words])

    def arrays(self) -> dict[str, object]:
        store = open_store(self.state)
        try:
            return {c.name: c.facts["array"] for c in store.chains()}
        finally:
            store.close()


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
