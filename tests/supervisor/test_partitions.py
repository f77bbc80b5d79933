"""A share of the partition stays free of exclusions, however many nodes are suspected."""

from __future__ import annotations

from datetime import timedelta

from chainwatch.model.chain import ExcludedNode
from tests.supervisor.play import Play


def test_a_chain_excludes_no_more_than_its_share_of_the_partition(play: Play) -> None:
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    [job] = play.live("run")
    nodes = [n.name for n in play.backend.nodes() if job.partition in n.partitions and n.name not in job.nodes]
    for name in nodes:
        now = play.clock.now()
        play.store.exclude(ExcludedNode(name, "ecc", now, now + timedelta(days=2), "run"))
    asked = len(play.calls("nodes"))
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: len(play.calls("submit")) == 2)
    [submission] = [s for s in play.said if "keeps away from" in s]
    told = submission.rpartition("keeps away from ")[2].split(", ")
    assert len(told) == (len(nodes) + len(job.nodes)) // 4 < len(nodes)
    assert len([c for c in play.calls("nodes")[asked:] if c in ((), ((),))]) <= 1, "partitions are asked for seldom"


def test_nothing_is_asked_where_nothing_is_excluded(play: Play) -> None:
    play.chain("run", recovery={"backoff": "1s"})
    play.submit("run")
    [job] = play.live("run")
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: len(play.calls("submit")) == 2)
    assert all(c not in ((), ((),)) for c in play.calls("nodes"))
