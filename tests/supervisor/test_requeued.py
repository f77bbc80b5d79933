"""Where Slurm itself brings a chain back, nothing is decided; what a person should hear is told all the same."""

from __future__ import annotations

from tests.supervisor.play import Play


def preempted(play: Play, times: int) -> None:
    for _ in range(times):
        play.until(lambda: [j.state for j in play.live("run")] == ["RUNNING"])
        attempts = len(play.store.attempts("run"))
        play.lab.cluster.preempt(play.live("run")[0].job_id)
        play.until(lambda n=attempts: len(play.store.attempts("run")) > n)  # type: ignore[misc]


def vain(play: Play) -> list[str]:
    return [n.key for n in play.store.undelivered() if n.key.startswith("run:vain")]


def test_a_chain_that_slurm_requeues_in_vain_is_told_at_the_fifth_preemption(play: Play) -> None:
    play.chain(
        "run", sbatch=["--job-name=run", "--qos=requeue"], recovery={"preemptions_alert": 3, "preemptions_rest": 5}
    )
    play.submit("run")
    preempted(play, 2)
    assert not vain(play)
    preempted(play, 1)
    play.passes(3)
    assert len(vain(play)) == 1
    preempted(play, 2)
    play.passes(3)
    assert len(vain(play)) == 2, "and once more where a chain of ours would rest"
    assert len(play.calls("submit")) == 1, "nothing is submitted beside it"
