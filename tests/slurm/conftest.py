"""The private Slurm of this folder: its own, for these tests stop its daemons, and with time-outs short enough to wait."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from os import getuid

import pytest
from dev.slurm import PrivateCluster
from dev.slurm.stage import RealStage


@pytest.fixture(scope="session")
def cluster(slurm_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateCluster]:
    """A private cluster of four nodes; it boots when the first test asks for it."""
    with PrivateCluster.boot(tmp_path_factory.mktemp("slurm"), nodes=4, message_timeout=2) as booted:
        yield booted


@pytest.fixture(scope="session")
def stage(cluster: PrivateCluster) -> RealStage:
    """The private cluster as a stage of the contract."""
    return RealStage(cluster, pwd.getpwuid(getuid()).pw_name)
