"""Silence judged: zero false alarms over generated histories of healthy runs, every true stop found in time."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from chainwatch.config.models import Hang
from chainwatch.diagnosis.hang import STARTUP, Look, Pace, Silence, Watch, fell_silent_together, judge, observe

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
POLL = timedelta(seconds=60)
DEFAULTS = Hang()


@dataclass(frozen=True)
class Event:
    """Something that a run does: seconds since the attempt before it, and what it then says."""

    after: float
    step: int | None = None
    phase: str = ""


@dataclass
class Replay:
    """Polls a run that is a list of events, as the daemon would."""

    watch: Watch | None = None
    pace: Pace = Pace()
    at: datetime = BEGIN
    attempt: int = 0
    known: bool = False

    def play(
        self, events: Iterator[Event], hours: float, hang: Hang = DEFAULTS, seen: Callable[[Look], Look] = lambda x: x
    ) -> Silence | None:
        """The first alarm within these hours of one attempt; the last event is a stop for ever."""
        self.attempt += 1
        start = self.at
        life, step, phase = 0, None, ""
        event = next(events, None)
        due = start + timedelta(seconds=event.after) if event else None
        rng = random.Random(self.attempt)
        while (self.at - start).total_seconds() < hours * 3600:
            self.at += POLL * (0.9 + 0.2 * rng.random())
            while event is not None and due is not None and due <= self.at:
                life += 1
                step, phase = event.step if event.step is not None else step, event.phase or phase
                event = next(events, None)
                due = due + timedelta(seconds=event.after) if event else None
            look = seen(
                Look(str(self.attempt), self.at, True, str(life), step=step, phase=phase, tells_steps=self.known)
            )
            self.watch, self.pace = observe(self.watch, self.pace, look, POLL)
            if rng.random() < 0.02:  # as a daemon that is started again reads it back
                self.watch = Watch.of(json.loads(json.dumps(self.watch.as_dict())))
                self.pace = Pace.of(json.loads(json.dumps(self.pace.as_dict())))
            self.known = self.known or step is not None
            assert self.watch is not None
            alarm = judge(self.watch, self.pace, hang)
            if alarm is not None:
                return alarm
        return None


def steps(
    rng: random.Random,
    usual: float,
    count: int | None = None,
    *,
    spread: float = 0.05,
    start: float = 120,
    warm_up: float = 1.0,
    evaluate: tuple[int, float, bool] | None = None,
    save: tuple[int, float, float] | None = None,
    first: int = 0,
) -> Iterator[Event]:
    """`evaluate`: every N steps, seconds, whether it is marked. `save`: every N steps, seconds, growth per save."""
    yield Event(5.0)
    wait, saves = start, 0
    for step in itertools.count(first + 1) if count is None else range(first + 1, first + count + 1):
        wait += usual * rng.lognormvariate(0, spread) * (warm_up if step - first <= 3 else 1.0)
        yield Event(wait, step, "training")
        wait = 0.0
        if save and step % save[0] == 0:
            saves += 1
            yield Event(0.1, phase="saving")
            wait += save[1] * save[2] ** saves
        if evaluate and step % evaluate[0] == 0:
            if evaluate[2]:
                yield Event(wait + 0.1, phase="evaluation")
                wait = 0.0
            wait += evaluate[1] * rng.uniform(0.7, 1.2)


Run = Callable[[random.Random, int], Iterator[Event]]


def pace_of(rng: random.Random) -> float:
    """Seconds a step, from a fast run to one of twenty minutes."""
    return rng.choice([0.4, 2.0, 15.0, 60.0, 240.0, 1200.0])


def steady(rng: random.Random, first: int) -> Iterator[Event]:
    return steps(rng, pace_of(rng), first=first)


def heavy_tailed(rng: random.Random, first: int) -> Iterator[Event]:
    return steps(rng, min(pace_of(rng), 60.0), spread=rng.uniform(0.5, 0.9), first=first)


def warm_up(rng: random.Random, first: int) -> Iterator[Event]:
    return steps(rng, rng.uniform(5, 30), warm_up=rng.uniform(10, 60), start=rng.uniform(60, 2400), first=first)


def evaluation_marked(rng: random.Random, first: int) -> Iterator[Event]:
    return steps(rng, 10, evaluate=(rng.choice([50, 200, 900]), rng.uniform(60, 2400), True), first=first)


def evaluation_silent(rng: random.Random, first: int) -> Iterator[Event]:
    """More than twenty steps long, and nothing says that it began."""
    return steps(rng, 10, evaluate=(rng.choice([100, 700]), rng.uniform(200, 720), False), first=first)


def growing_saves(rng: random.Random, first: int) -> Iterator[Event]:
    return steps(rng, 8, save=(200, rng.uniform(60, 300), rng.uniform(1.02, 1.12)), first=first)


KINDS: dict[str, Run] = {
    "steady": steady,
    "heavy-tailed": heavy_tailed,
    "warm-up": warm_up,
    "evaluation, marked": evaluation_marked,
    "evaluation, silent": evaluation_silent,
    "saves that grow": growing_saves,
}
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


@pytest.mark.slow
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
        print("\n\nhistories            runs  false alarms  stops found  late  median min  longest min")
        for row in rows:
            print("{:20} {:5} {:13} {:12} {:5} {:11.0f} {:12.0f}".format(*row))
    assert sum(row[1] for row in rows) >= 200
    assert [row[2] for row in rows] == [0] * len(rows), "false alarms"
    assert [row[3] for row in rows] == [EACH] * len(rows), "stops that were not found"
    assert [row[4] for row in rows] == [0] * len(rows), "stops that were found late"


def test_a_suspended_job_is_no_hang_and_gets_its_own_time_afterwards() -> None:
    def seen(look: Look) -> Look:
        asleep = timedelta(hours=2) < look.at - BEGIN < timedelta(hours=30)
        return replace(look, running=not asleep, life="asleep" if asleep else look.life)

    rng = random.Random(1)
    events = list(steps(rng, 10, 1400))
    events.insert(700, Event(28 * 3600 + 600))
    assert Replay().play(iter(events), 31, seen=seen) is None


def test_storage_that_does_not_answer_adds_no_silence() -> None:
    replay = Replay()
    alarm = replay.play(
        steps(random.Random(1), 10, 300),
        20,
        seen=lambda look: replace(look, answered=look.step is None or look.step < 300),
    )
    assert alarm is None


@pytest.mark.parametrize("jump", [timedelta(hours=5), timedelta(hours=-5)])
def test_a_clock_that_jumps_raises_nothing(jump: timedelta) -> None:
    def seen(look: Look) -> Look:
        return replace(look, at=look.at + (jump if look.at - BEGIN > timedelta(hours=1) else timedelta(0)))

    assert Replay().play(steps(random.Random(1), 30, 2000), 6, seen=seen) is None


def test_a_daemon_that_was_down_counts_nothing_of_that_time() -> None:
    watch, pace = observe(None, Pace(), Look("1", BEGIN, True, "a", step=5), POLL)
    watch, pace = observe(watch, pace, Look("1", BEGIN + timedelta(hours=9), True, "a", step=5), POLL)
    assert watch.silent == POLL.total_seconds()


def test_a_restart_that_is_stuck_in_start_up_is_a_hang_though_its_download_bar_grows() -> None:
    replay = Replay()
    assert replay.play(steps(random.Random(1), 10, 500), 1) is None
    alarm = replay.play((Event(20.0) for _ in range(10_000)), 10)
    assert alarm is not None
    assert alarm.phase == STARTUP
    assert DEFAULTS.startup <= alarm.silent <= DEFAULTS.startup + 2 * POLL
    assert "no training step for 6" in alarm.sentence


def test_a_run_whose_steps_nothing_can_read_is_not_called_stuck_while_its_log_grows() -> None:
    assert Replay().play((Event(20.0) for _ in range(10_000)), 10) is None


def test_a_mark_of_evaluation_from_an_earlier_attempt_does_not_count() -> None:
    replay = Replay()
    replay.play(iter([*steps(random.Random(1), 10, 400), Event(1.0, phase="evaluation")]), 1.3)
    assert replay.watch is not None
    assert replay.watch.phase == "evaluation"
    alarm = replay.play(steps(random.Random(1), 10, 200, first=390), 10)
    assert alarm is not None
    assert (alarm.phase, alarm.silent < timedelta(minutes=18)) == ("training", True)


def test_the_configured_time_is_kept_to() -> None:
    alarm = Replay().play(steps(random.Random(1), 10, 200), 10, Hang(alert_after=timedelta(minutes=5)))
    assert alarm is not None
    assert alarm.silent < timedelta(minutes=8)
    assert "at step 200" in alarm.sentence


def test_many_chains_that_fall_silent_together_are_no_hangs() -> None:
    quiet = Watch("1", BEGIN + timedelta(minutes=20), True, "x", BEGIN, silent=1200, step=4, first=1)
    other = replace(quiet, alive_at=BEGIN + timedelta(minutes=2))
    busy = replace(quiet, silent=0.0, alive_at=BEGIN + timedelta(minutes=20))
    assert fell_silent_together("a", {"a": quiet, "b": other, "c": quiet, "d": busy}) == ("a", "b", "c")
    assert fell_silent_together("a", {"a": quiet, "b": other}) == ("a", "b")
    assert fell_silent_together("a", {"a": quiet, "b": other, "d": busy}) == ()
    assert fell_silent_together("a", {"a": quiet}) == ()


def test_what_was_stored_by_another_version_is_nothing_rather_than_an_error() -> None:
    for value in (None, 3, {}, {"counts": 1}, {"counts": {"x": {"y": 1}}, "longest": {}}):
        assert Pace.of(value) == Pace()
    assert Watch.of({"attempt": "1", "at": "yesterday"}) is None
