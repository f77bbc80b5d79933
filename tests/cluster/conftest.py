"""What the tests on the real cluster share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dev.slurm import PrivateCluster

from tests.cluster.stand import Stand


@pytest.fixture
def stand(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Stand]:
    """chainwatch before the real cluster; its jobs are ended afterwards."""
    with closing(Stand(cluster, tmp_path)) as made:
        yield made
