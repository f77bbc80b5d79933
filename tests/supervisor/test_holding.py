"""The loop and the holds of its pending jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chainwatch.actions.holds import Holds
from chainwatch.model.chain import ChainState, Desired, Mode, Release
from chainwatch.model.job import Job, JobState
from chainwatch.simulation import Fault, FaultKind
from chainwatch.store.records import IntentKind, IntentStatus
from tests.supervisor.play import Play

LAUNCH_FAILED = "launch failed requeued held"


def launch_fails(play: Play, name: str = "run") -> int:
    [job] = play.live(name)
    play.lab.cluster.controller.requeue(job.job_id, hold=True, reason=LAUNCH_FAILED)
    return job.job_id


def waiting(play: Play) -> int:
    """A pending job of the chain `run`."""
    play.chain("run", sbatch=["--job-name=run", "--begin=now+1day"])
    play.submit("run")
    [job] = play.live("run")
    return job.job_id


def test_a_launch_that_failed_is_released_with_an_intent_a_decision_and_a_line_in_the_audit_log(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    job_id = launch_fails(play)
    play.until(lambda: play.state("run") is ChainState.RUNNING and len(play.store.attempts("run")) == 2, 20)
    assert play.calls("release") == [(job_id,)]
    [intent] = [i for i in play.store.intents("run") if i.kind is IntentKind.RELEASE]
    assert (intent.status, intent.job_id) == (IntentStatus.DONE, job_id)
    assert any(isinstance(decision, Release) for _, _, decision, _ in play.store.decisions("run"))
    assert '"release"' in (play.root / "state" / "audit.log").read_text()
    assert len(play.calls("submit")) == 1
    assert any("is released: its launch failed" in s for s in play.said)


def test_after_three_releases_a_person_is_told(play: Play) -> None:
    play.chain("run", recovery={"pending_alert": "5m"})
    play.submit("run")
    for _ in range(4):
        play.until(lambda: [j.state for j in play.live("run")] == ["RUNNING"], 20)
        launch_fails(play)
        play.passes(3)
    play.passes(10)
    assert len(play.calls("release")) == 3
    assert any("failed to launch" in n.body["why"] for n in play.store.active_notices("run"))


@pytest.mark.parametrize("by", ["user", "admin"])
def test_a_persons_hold_is_never_released(play: Play, by: str) -> None:
    job_id = waiting(play)
    play.lab.cluster.controller.hold(job_id, by)
    play.passes(10)
    assert play.calls("release") == []


def test_a_hold_that_an_administrator_put_on_top_meanwhile_is_not_lifted(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    job_id = launch_fails(play)
    seen: list[object] = []

    def admin_holds(point: str) -> None:
        if point == "job:before" and not seen:
            seen.append(point)
            play.lab.cluster.controller.hold(job_id, "admin")

    play.backend.interrupt = admin_holds
    play.passes(10)
    assert seen
    assert play.calls("release") == []
    assert [i.status for i in play.store.intents("run") if i.kind is IntentKind.RELEASE] == [IntentStatus.REFUSED]


def test_in_mode_observe_it_is_only_said(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    play.store.update_chain("run", mode=Mode.OBSERVE)
    launch_fails(play)
    play.passes(5)
    assert play.calls("release") == []
    assert "would release it (mode observe)" in play.record("run").sentence


def test_a_release_that_was_interrupted_is_decided_anew(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    launch_fails(play)
    play.backend.faults.add([Fault("release", 1, FaultKind.BEFORE)])
    play.until(lambda: len(play.calls("release")) == 2, 10)
    play.passes(5)
    assert len(play.calls("release")) == 2
    states = [i.status for i in play.store.intents("run") if i.kind is IntentKind.RELEASE]
    assert states == [IntentStatus.REFUSED, IntentStatus.DONE]


def hold(play: Play, job_id: int) -> None:
    """As `chainwatch pause --hold` does."""
    play.store.update_chain("run", desired=Desired.PAUSE)
    job = play.backend.job(job_id)
    assert job is not None
    assert Holds(play.store, None, play.house.audit).hold(play.backend, "run", job, "pause", play.clock.now()) == ""


def test_our_own_hold_is_lifted_once_the_pause_is_over(play: Play) -> None:
    job_id = waiting(play)
    hold(play, job_id)
    play.passes(3)
    assert play.calls("release") == []
    play.store.update_chain("run", desired=Desired.RUN)
    play.passes(3)
    assert play.calls("release") == [(job_id,)]
    assert not play.live("run")[0].held


def test_a_hold_that_a_person_made_after_lifting_ours_is_theirs(play: Play) -> None:
    job_id = waiting(play)
    hold(play, job_id)
    play.passes(1)
    play.lab.cluster.controller.release(job_id)
    play.passes(2)
    play.lab.cluster.controller.hold(job_id, "user")
    play.store.update_chain("run", desired=Desired.RUN)
    play.passes(5)
    assert play.calls("release") == []
    assert play.live("run")[0].held


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("AssocGrpCpuLimit", "the account's limit on what it uses at once is reached"),
        ("PartitionTimeLimit", "its time limit is longer than the partition allows"),
        ("ReqNodeNotAvail, Reserved for maintenance", "it would run into a maintenance reservation"),
    ],
)
def test_a_reason_that_needs_a_person_is_in_the_status_at_once_and_told_after_a_grace(
    play: Play, monkeypatch: pytest.MonkeyPatch, reason: str, words: str
) -> None:
    play.chain("run", recovery={"pending_alert": "5m"})
    play.lab.cluster.occupy(len(play.settings.nodes), 7200)
    whole = play.backend.queue

    def saying(user: str | None) -> list[Job]:
        return [replace(j, reason=reason) if j.state is JobState.PENDING else j for j in whole(user)]

    monkeypatch.setattr(play.backend, "queue", saying)
    play.submit("run")
    assert play.state("run") is ChainState.PENDING
    assert words in play.record("run").sentence
    assert not play.store.active_notices("run")
    play.passes(6)
    [told] = play.store.active_notices("run")
    assert words in told.body["why"]
    assert told.body["wants"]
    monkeypatch.undo()
    play.until(lambda: play.state("run") is ChainState.RUNNING)
    assert not play.store.active_notices("run"), "it runs: nobody is needed any more"


@pytest.mark.parametrize("down", [True, False])
def test_nodes_that_a_job_waits_for_by_name_are_told_only_where_they_are_really_out_for_hours(
    play: Play, monkeypatch: pytest.MonkeyPatch, down: bool
) -> None:
    play.chain("run")
    play.lab.cluster.occupy(len(play.settings.nodes), 90_000)
    whole = play.backend.queue

    def saying(user: str | None) -> list[Job]:
        reason = "ReqNodeNotAvail, UnavailableNodes:n[1-2]"
        return [replace(j, reason=reason) if j.state is JobState.PENDING else j for j in whole(user)]

    monkeypatch.setattr(play.backend, "queue", saying)
    play.submit("run")
    if down:
        play.lab.cluster.drain("n2", "bad memory")
    play.passes(300)
    assert not play.store.active_notices("run")
    play.passes(80)
    told = [n.body["why"] for n in play.store.active_notices("run")]
    assert len(told) == down
    assert all("n2 is" in why and "n1" not in why for why in told)
    asked = len(play.calls("nodes"))
    play.passes(60)
    assert len(play.calls("nodes")) == asked, "asked every few hours, not at each poll"
