"""One daemon, two real clusters: one as usual, one of a site that keeps no accounting. Their job ids are the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.slurm import PrivateCluster

from chainwatch.config.models import Config, Slurm
from chainwatch.model.chain import ChainState
from chainwatch.model.verdict import Cause
from chainwatch.slurm.weaker import Weakness
from chainwatch.supervisor.clusters import backends
from tests.cluster.stand import DONE, NCCL, Stand

pytestmark = pytest.mark.slow


@pytest.fixture
def bare(cluster: PrivateCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateCluster]:
    """A cluster without slurmdbd, whose first job has the id of the other cluster's next job."""
    first = cluster.sbatch("true") + 1
    root = tmp_path_factory.mktemp("bare")
    with PrivateCluster.boot(root, nodes=1, accounting=False, extra_conf=f"FirstJobId={first}") as booted:
        yield booted


@pytest.fixture
def federated(
    slurm_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PrivateCluster, PrivateCluster]]:
    """Two clusters of one federation with one accounting, reached from each other by --clusters."""
    roots = [tmp_path_factory.mktemp(name) for name in ("origin", "sibling")]
    with (
        PrivateCluster.boot(roots[0], nodes=1, node_prefix="a") as origin,
        PrivateCluster.boot(roots[1], nodes=1, node_prefix="b", beside=str(origin.root)) as sibling,
    ):
        origin.run("sacctmgr", "-i", "add", "federation", "fed", f"clusters={origin.name},{sibling.name}")
        for one in (origin, sibling):
            one.until(lambda one=one: "Synced:Yes" in one.run("scontrol", "show", "federation").stdout, 60, "federated")  # type: ignore[misc]
        yield origin, sibling


def test_a_chain_follows_its_job_to_the_cluster_of_the_federation_that_started_it(
    federated: tuple[PrivateCluster, PrivateCluster], tmp_path: Path
) -> None:
    origin, sibling = federated
    stand, name = Stand(origin, tmp_path), f"run-{uuid.uuid4().hex[:8]}"
    slurm = Slurm.model_validate({"conf": str(origin.conf), "clusters": [sibling.name]})
    stand.others = backends(Config(slurm=slurm))
    busy = origin.sbatch("sleep 600", "--exclusive", f"--clusters={origin.name}")
    origin.wait(busy, "RUNNING")
    stand.behave(f"sleep 3; {NCCL}")
    stand.chain(name)
    stand.submit(name)
    stand.until(lambda: stand.judged(name), "the first job has failed on the other cluster", 120)
    stand.behave(DONE)
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done", 120)
    attempts = stand.attempts(name)
    assert [attempt.job.cluster for attempt in attempts] == [sibling.name] * 2
    assert attempts[0].verdict is not None
    assert attempts[0].verdict.cause is Cause.NETWORK_FABRIC
    assert stand.record(name).cluster == sibling.name
    rows = origin.run("sacct", "-nXP", "--allclusters", f"--name={name}", "-o", "JobIDRaw", "-S", "now-1hour").stdout
    assert len(set(rows.split())) == 2, "nothing was submitted beside a sibling"
    assert any("was started by" in sentence for sentence in stand.sentences)
    stand.store.close()


def test_chains_on_two_clusters_live_in_one_daemon_and_the_one_without_accounting_says_what_is_weaker(
    cluster: PrivateCluster, bare: PrivateCluster, tmp_path: Path
) -> None:
    stand = Stand(cluster, tmp_path)
    usual, weaker = (f"run-{uuid.uuid4().hex[:8]}" for _ in range(2))
    stand.others = backends(Config(slurm=Slurm.model_validate({"confs": {bare.name: str(bare.conf)}})))
    assert list(stand.others) == [bare.name]
    assert not stand.others[bare.name].info().accounting
    stand.behave(NCCL)
    stand.chain(usual)
    stand.chain(weaker, cluster=bare.name, sbatch=[f"--job-name={weaker}", "--time=10", "--no-requeue"])
    try:
        ids = [stand.submit(name) for name in (usual, weaker)]
        assert ids[0] == ids[1], "the same id on both clusters"
        stand.until(lambda: stand.judged(usual) and stand.judged(weaker), "both chains know why their job ended", 120)
        stand.behave(DONE)
        for name in (usual, weaker):
            stand.until(lambda name=name: stand.is_(name, ChainState.DONE), f"{name} is done", 120)  # type: ignore[misc]
    finally:
        stand.store.close()
        cluster.run("scancel", f"--name={usual}", check=False)
    stand.start()
    for name, home, sentences in ((usual, cluster.name, 0), (weaker, bare.name, 1)):
        attempts = stand.attempts(name)
        assert [attempt.job.cluster for attempt in attempts] == [home] * len(attempts)
        assert attempts[0].verdict is not None
        assert attempts[0].verdict.cause is Cause.NETWORK_FABRIC
        for attempt in attempts:
            assert attempt.verdict is not None
            said = [sentence for sentence in attempt.verdict.weaker if Weakness.NO_ACCOUNTING.value in sentence]
            assert len(said) == sentences
    assert not [key for key in stand.notices() if "vanished" in key or "homeless" in key]
    stand.store.close()
