"""What a job was submitted with is remembered with its attempt."""

from __future__ import annotations

from chainwatch.actions.compose import digest
from tests.supervisor.play import Play


def test_an_attempt_remembers_the_script_and_the_environment_it_was_submitted_with(play: Play) -> None:
    chain = play.chain("run", recovery={"backoff": "1s"})
    text = play.lab.cluster.content(str(chain.batch)) + b"\nsrun --container-image=/i/a.sqsh python train.py\n"
    play.house.read_script = lambda path: text
    play.submit("run")
    [attempt] = play.store.attempts("run")
    assert attempt.script_digest == digest(text)
    assert attempt.image == "/i/a.sqsh"
    assert {"HOME", "CHAINWATCH_CHAIN"} <= set(attempt.variables)


def test_an_edit_while_the_job_runs_does_not_change_what_it_was_submitted_with(play: Play) -> None:
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    [job], [before] = play.live("run"), play.store.attempts("run")
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: play.store.attempts("run")[0].verdict)
    assert play.store.attempts("run")[0].script_digest == before.script_digest


def test_people_hear_once_that_a_chain_is_preempted_in_vain(play: Play) -> None:
    play.chain("run", recovery={"backoff": "1s", "preemptions_alert": 2})
    play.submit("run")
    for number in range(1, 4):
        play.until(lambda: [j for j in play.live("run") if j.state.on_nodes])
        play.lab.cluster.preempt(play.live("run")[0].job_id)
        play.until(lambda n=number: len(play.calls("submit")) == n + 1)  # type: ignore[misc]
    [told] = [n for n in play.store.undelivered() if ":tell:" in n.key]
    assert "preempted 2 times" in str(told.body)
