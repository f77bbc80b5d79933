"""A node that ended jobs of two chains: every chain keeps away from it, and people hear of it once."""

from __future__ import annotations

from chainwatch.simulation import batch
from chainwatch.slurm.backend import Submission
from tests.supervisor.play import Play

ALONE = ["--cpus-per-task=8", "--no-requeue"]


def test_a_third_chain_keeps_away_from_a_node_that_killed_jobs_of_two(play: Play) -> None:
    for name in "ab":
        play.chain(name, sbatch=[f"--job-name={name}", "--nodelist=n1", "--cpus-per-task=1", "--no-requeue"])
    play.submit("a", "b")
    assert {j.nodes for name in "ab" for j in play.live(name)} == {("n1",)}
    play.lab.cluster.kill_node("n1")
    play.until(lambda: all(play.store.attempts(n)[0].verdict for n in "ab"))
    told = [n for n in play.store.undelivered() if n.key.startswith("suspect:n1")]
    assert len(told) == 1
    assert told[0].title == "node n1 ended jobs of two chains"
    play.lab.cluster.restore("n1")
    play.chain("c", batch(600, 1), sbatch=["--job-name=c", *ALONE], recovery={"backoff": "1s"})
    play.submit("c")
    play.until(lambda: len(play.store.attempts("c")) == 2)
    last = play.calls("submit")[-1][0]
    assert isinstance(last, Submission)
    assert "--exclude=n1" in last.options


def test_a_chain_that_asks_for_a_node_by_name_goes_on_elsewhere_once_that_node_is_bad(play: Play) -> None:
    play.chain("a", sbatch=["--job-name=a", "--nodelist=n1", *ALONE])
    play.submit("a")
    play.lab.cluster.kill_node("n1")
    play.until(lambda: len(play.store.attempts("a")) == 2, 20)
    [job] = play.live("a")
    assert job.nodes != ("n1",)
