"""Fixtures for every test: above all the real private Slurm, booted once per session."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from dev.slurm import PrivateCluster, Settings, missing_programs

from tests.order import side_by_side

# A run that decides whether a change is good tries the same examples as the last one; others look for new ones. None is
# a matter of time: a busy machine fails no test.
hypothesis.settings.register_profile("searching", deadline=None, print_blob=True)
hypothesis.settings.register_profile("steady", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("steady" if os.environ.get("CI") else "searching")

CLUSTER_FIXTURES = {"cluster", "idle_cluster"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever asks for the cluster carries the mark `slurm`; tests that wait run beside tests that compute."""
    for item in items:
        if CLUSTER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slurm)
    items[:] = side_by_side(items, getattr(config, "workerinput", {}).get("workercount", 1))


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """Slurm's daemons are on this machine; a plain user without them skips, everybody else fails."""
    missing = missing_programs()
    if not missing:
        return
    reason = f"NO REAL SLURM TESTED: {', '.join(missing)} not installed (as root: dev/install slurm)"
    if os.geteuid() == 0 or os.environ.get("CHAINWATCH_REQUIRE_SLURM"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(slurm_installed: None, request: pytest.FixtureRequest) -> Iterator[PrivateCluster]:
    """A real private Slurm of four nodes, one per session (and per xdist worker).

    It is shared: leave its daemons and nodes as they were, or use `idle_cluster`. Its files stay when a test failed.
    """
    root = Path(tempfile.mkdtemp(prefix="chainwatch-test-"))
    with PrivateCluster.boot(root, Settings()) as booted:
        yield booted
    if request.session.testsfailed:
        print(f"\nthe private cluster's files and logs are kept in {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def idle_cluster(cluster: PrivateCluster) -> Iterator[PrivateCluster]:
    """The session's cluster: no job, every daemon up, every node idle. Mended afterwards, so break what you like."""
    cluster.mend()
    yield cluster
    cluster.mend()
