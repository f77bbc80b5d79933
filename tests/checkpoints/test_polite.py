"""Reading as a guest: what a site allows holds for every byte that a check reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.checkpoints import polite
from chainwatch.checkpoints.files.base import BLOCK, Reader
from chainwatch.checkpoints.polite import Throttle


class Watch:
    def __init__(self) -> None:
        self.at = 100.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """A limit of a megabyte a second, on a clock that stands still but for the sleeps."""
    one = Watch()
    monkeypatch.setattr(polite, "_process", Throttle(1e6, one.now, one.sleep))
    return one


def test_metadata_and_data_are_read_no_faster_than_the_limit(watch: Watch, tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(bytes(10_000_000))
    with Reader(str(file)) as reader:
        assert len(reader.read(0, 5_000_000)) == 5_000_000
        assert watch.at - 100 == pytest.approx(5, abs=0.01)
        assert sum(len(block) for block in reader.blocks(0, 10_000_000)) == 10_000_000
    assert watch.at - 100 == pytest.approx(15, abs=0.01)
    assert max(watch.slept) < 5, "in pieces: a long sleep looks like storage that stands still"
    assert len(watch.slept) > 10_000_000 // BLOCK


def test_a_pause_is_not_saved_up_for_a_burst(watch: Watch) -> None:
    polite.spend(1_000_000)
    watch.at += 3600
    polite.spend(1_000_000)
    assert watch.slept == [1.0, 1.0]


def test_without_a_limit_nothing_waits() -> None:
    assert not polite.limited()
    polite.spend(1 << 60)
