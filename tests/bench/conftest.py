"""Benchmarks run only where they are asked for (`make bench`): they write gigabytes and take minutes."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("benchmark_enable") or config.getoption("benchmark_only"):
        return
    for item in items:
        if "/bench/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="a benchmark; make bench runs it"))
