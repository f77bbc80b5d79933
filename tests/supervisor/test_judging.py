"""From an end to its verdict, with what the house knows."""

from __future__ import annotations

import pwd
from dataclasses import replace

import pytest

from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.verdict import Cause, EndRecord
from chainwatch.simulation import batch
from chainwatch.supervisor.readers import LeftBehind
from tests.supervisor.play import Play


@pytest.mark.parametrize(("who", "cause"), [("ada", Cause.CANCELLED_BY_USER), ("root", Cause.CANCELLED_BY_OTHER)])
def test_a_cancellation_by_the_jobs_user_is_told_from_one_by_somebody_else(play: Play, who: str, cause: Cause) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    play.lab.cluster.cancel(play.live("run")[0].job_id, who)
    play.until(lambda: play.store.attempts("run")[0].verdict is not None)
    verdict = play.store.attempts("run")[0].verdict
    assert verdict is not None
    assert verdict.cause is cause
    evidence = play.store.evidence("run", 1)
    assert evidence is not None
    assert evidence.user_uid == play.settings.uid("ada")


def test_the_uid_is_that_of_the_jobs_user_also_where_another_one_runs_the_daemon(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pwd, "getpwnam", lambda name: {"ada": pwd.struct_passwd(("ada", "", 4711, 1, "", "", ""))}[name]
    )
    play.house.user = "operator"
    play.supervisor.pollers[play.backend.name]._user = "ada"
    play.chain("run", batch(100))
    play.submit("run")
    play.until(lambda: play.store.attempts("run") and play.store.attempts("run")[0].verdict is not None)
    evidence = play.store.evidence("run", 1)
    assert evidence is not None
    assert evidence.user_uid == 4711
    assert replace(evidence, user_uid=None) != evidence


@pytest.mark.parametrize("recorded", ["/home/ada/run/step30", None])
def test_what_a_job_resumed_from_is_what_it_chose_when_it_began_and_else_what_was_handed_over(
    play: Play, monkeypatch: pytest.MonkeyPatch, recorded: str | None
) -> None:
    """A dead node's processes saved step 30 while the job waited in the queue."""
    there = Checkpoint("/home/ada/run/step20", 20, "dcp", Status.INTACT, "")
    play.files.report = RunReport("/home/ada/run", "dcp", (there,), there)
    record = EndRecord("n1", 1, None, play.clock.now(), resumed_from=recorded)
    monkeypatch.setattr(play.files, "left_behind", lambda place, job, now: LeftBehind(end_records=(record,)))
    play.chain("run", batch(100, 1), checkpoints="/home/ada/run")
    play.submit("run")
    play.until(lambda: play.store.attempts("run")[0].verdict is not None)
    evidence = play.store.evidence("run", 1)
    assert evidence is not None
    assert evidence.resumed_from == play.store.attempts("run")[0].resumed_from == (recorded or "/home/ada/run/step20")
