"""Chains that are taken out of the configuration are let go, and taken up again when they are back."""

from __future__ import annotations

from chainwatch.config.models import Chain
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.verdict import Outcome
from chainwatch.simulation import batch
from chainwatch.store.records import ChainRecord, IntentStatus, Origin
from tests.supervisor.play import Play


def taken_out(play: Play, name: str) -> Chain:
    chain = play.chains.pop(name)
    play.reload()
    return chain


def test_a_chain_that_is_taken_out_is_said_once_and_its_job_left_alone(play: Play) -> None:
    play.chain("run")
    play.submit("run")
    [job] = play.live("run")
    taken_out(play, "run")
    play.passes(5)
    assert [s for s in play.said if "no longer in the configuration" in s] == [
        "run: no longer in the configuration: left alone, and its job too; its history is kept"
    ]
    assert play.state("run") is ChainState.PAUSED
    assert play.record("run").released
    assert [j.job_id for j in play.live("run")] == [job.job_id]
    assert play.calls("cancel") == []
    assert len(play.store.attempts("run")) == 1


def test_nothing_is_submitted_for_a_chain_that_was_taken_out_and_accounting_is_not_asked_for_it(play: Play) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    [job] = play.live("run")
    taken_out(play, "run")
    play.passes(2)
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: not play.live("run"))
    asked = len(play.calls("accounting"))
    play.passes(20)
    assert len(play.calls("submit")) == 1
    assert len(play.calls("accounting")) == asked
    assert play.store.attempts("run")[0].verdict is None


def test_a_chain_that_comes_back_is_taken_up_where_it_stands(play: Play) -> None:
    play.chain("run", batch(100_000), recovery={"backoff": "1s"})
    play.submit("run")
    [job] = play.live("run")
    chain = taken_out(play, "run")
    play.passes(2)
    play.lab.cluster.preempt(job.job_id)
    play.passes(10)
    play.start()  # also by a daemon that knows nothing of it
    play.chains["run"] = chain
    play.reload()
    play.until(lambda: len(play.calls("submit")) == 2)
    assert not play.record("run").released
    assert "run: back in the configuration: looked after again" in play.said
    attempt = play.store.attempts("run")[0]
    assert attempt.verdict is not None
    assert attempt.verdict.outcome is Outcome.PREEMPTED


def test_a_restart_with_another_configuration_lets_go_what_it_does_not_name(play: Play) -> None:
    play.chain("old")
    play.submit("old")
    play.chains.clear()
    play.start()
    play.passes(3)
    assert play.record("old").released
    assert len(play.live("old")) == 1


def test_a_done_chain_stays_done_when_it_is_taken_out(play: Play) -> None:
    play.chain("run", batch(100))
    play.submit("run")
    play.until(lambda: play.state("run") is ChainState.DONE)
    sentence = play.record("run").sentence
    taken_out(play, "run")
    play.passes(3)
    assert (play.state("run"), play.record("run").sentence) == (ChainState.DONE, sentence)


def test_a_chain_that_needed_a_person_is_told_again_when_it_is_back_and_not_meanwhile(play: Play) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    play.lab.cluster.cancel(play.live("run")[0].job_id)
    play.until(lambda: play.state("run") is ChainState.RESTING)
    sentence = play.record("run").sentence
    chain = taken_out(play, "run")
    play.passes(3)
    assert play.store.active_notices("run") == []
    play.chains["run"] = chain
    play.reload()
    play.passes(3)
    assert (play.state("run"), play.record("run").sentence) == (ChainState.RESTING, sentence)
    [notice] = play.store.active_notices("run")
    assert notice.severity == "critical"
    assert len(play.calls("submit")) == 1


def test_chains_that_commands_made_stand_in_no_configuration_and_stay(play: Play) -> None:
    script = play.lab.script(batch(None), path="/home/ada/own.sh")
    settings = Chain.model_validate({"batch": script, "directory": "/home/ada"}).model_dump(mode="json")
    for name, origin in (("own", Origin.SBATCH), ("found", Origin.ADOPTED), ("early", Origin.CONFIG)):
        play.store.add_chain(ChainRecord(name, "alpha", origin, Mode.ACT, settings, play.clock.now()))
    play.passes(3)
    assert not any(play.record(name).released for name in ("own", "found", "early"))


def test_an_open_submission_of_a_chain_that_is_taken_out_is_settled_and_not_tried_again(play: Play) -> None:
    from chainwatch.simulation import Fault, FaultKind

    play.chain("run")
    play.passes(1)
    play.backend.faults.add([Fault("submit", 1, FaultKind.BEFORE)])
    play.store.update_chain("run", retried_at=play.clock.now())
    play.passes(1)
    assert [i.status for i in play.store.intents("run")] == [IntentStatus.OPEN]
    taken_out(play, "run")
    play.passes(6)
    assert [i.status for i in play.store.intents("run")] == [IntentStatus.ABANDONED]
    assert play.live("run") == []
    play.store.forget_chain("run")
