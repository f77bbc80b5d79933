"""The table: zero false alarms over generated histories of healthy runs, every true stop found in time.

`make hangs` prints it.
"""

from __future__ import annotations

import itertools
import random
from datetime import timedelta

import pytest

from chainwatch.diagnosis.hang import Silence
from tests.diagnosis.replay import DEFAULTS, KINDS, POLL, Replay, Run

EACH = 36


def _preempted(rng: random.Random, kind: Run, hours: float, seed: int) -> tuple[Replay, Silence | None]:
    """Three attempts of one chain (`seed`: its habits), cut at any moment, each resuming a little before."""
    replay, first = Replay(), 0
    for _ in range(3):
        alarm = replay.play(kind(random.Random(seed), first), hours * rng.uniform(0.2, 1.0))
        if alarm is not None:
            return replay, alarm
        first = max(0, (replay.watch.step or 0) - 20) if replay.watch else 0
        replay.at += timedelta(minutes=rng.uniform(1, 600))
    return replay, None


@pytest.mark.slow(15)
def test_no_healthy_history_raises_an_alarm_and_every_stop_is_found_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for number, (name, kind) in enumerate(KINDS.items()):
        false, found, late, latencies = 0, 0, 0, []
        for seed in range(EACH):
            rng = random.Random(1000 * number + seed)
            replay, alarm = _preempted(rng, kind, 3.0, seed)
            false += alarm is not None
            if alarm is not None:
                print(name, seed, alarm.sentence)
                continue
            cut = rng.randrange(5, 400)
            stopped = replay.play(itertools.islice(kind(random.Random(seed), 0), cut), 400.0)
            assert replay.watch is not None
            if stopped is None:
                continue
            found += 1
            latencies.append(stopped.silent.total_seconds() / 60)
            goal = max(
                DEFAULTS.startup if stopped.phase != "training" else DEFAULTS.floor,
                timedelta(seconds=5 * replay.pace.usual(stopped.phase)),
                timedelta(seconds=2 * replay.pace.longest.get(stopped.phase, 0.0)),
            )
            late += stopped.silent > goal + 2 * POLL
        rows.append((name, EACH, false, found, late, sorted(latencies)[len(latencies) // 2], max(latencies)))
    with capsys.disabled():
        print("\n\nhistories              runs  false alarms  stops found  late  median min  longest min")
        for row in rows:
            print("{:22} {:5} {:13} {:12} {:5} {:11.0f} {:12.0f}".format(*row))
    assert sum(row[1] for row in rows) >= 200
    assert [row[2] for row in rows] == [0] * len(rows), "false alarms"
    assert [row[3] for row in rows] == [EACH] * len(rows), "stops that were not found"
    assert [row[4] for row in rows] == [0] * len(rows), "stops that were found late"
