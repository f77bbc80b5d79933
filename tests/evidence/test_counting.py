"""Lines that count on show that a program still worked, in whatever words."""

from __future__ import annotations

import pytest

from chainwatch.evidence.logs.counting import counting


@pytest.mark.parametrize(
    "lines",
    [
        ["ep 0 it 10 0.6921", "ep 0 it 20 0.6512", "ep 1 it 10 0.6233"],
        ["answered 18/400", "answered 60/400", "answered 102/400"],
        ["7100 train_nll=2.114 tok/s=112000", "7200 train_nll=2.110 tok/s=112100", "8000 train_nll=nan tok/s=1.2"],
    ],
)
def test_a_count_that_rises_is_work(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    assert counting(text) == [text.index(line.encode()) for line in lines]


@pytest.mark.parametrize(
    "lines",
    [
        ["ep 0 it 10 0.69"],
        ["retry 1 in 2.0 s", "retry 2 in 4.0 s", "retry 3 in 8.0 s"],
        ["waiting for rank 3: 10/60", "waiting for rank 3: 20/60", "waiting for rank 3: 30/60"],
        ["#1 0x7f12 in f 1.2", "#2 0x7f13 in g 1.2", "#3 0x7f14 in h 1.2"],
        ["frame 1 libtorch 2.1", "frame 2 libtorch 2.1", "frame 3 libtorch 2.1"],
        ["it 30 0.1", "it 20 0.2", "it 10 0.3"],
        ["it 10", "it 20", "it 30"],
    ],
)
def test_what_waits_or_lists_is_none(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    assert counting(text) == []
