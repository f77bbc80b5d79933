"""Generated histories of running jobs, and a replay that polls them as the daemon would."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chainwatch.config.models import Hang
from chainwatch.diagnosis.hang import Look, Pace, Silence, Watch, judge, observe

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


def very_heavy_tailed(rng: random.Random, first: int) -> Iterator[Event]:
    """Stragglers by a power law: now and then a step takes a hundred times as long, up to eight minutes."""
    wait = 120.0
    yield Event(5.0)
    for step in itertools.count(first + 1):
        wait += min(4.0 * rng.paretovariate(1.3), 480.0)
        yield Event(wait, step, "training")
        wait = 0.0


def evaluation_growing(rng: random.Random, first: int) -> Iterator[Event]:
    """Each evaluation takes a tenth longer than the last one, and nothing says that it began."""
    wait, long = 120.0, rng.uniform(120, 300)
    yield Event(5.0)
    for step in itertools.count(first + 1):
        wait += 8 * rng.lognormvariate(0, 0.1)
        yield Event(wait, step, "training")
        wait = 0.0
        if step % 60 == 0:
            long = min(1.1 * long, 2400)
            wait = long


def slower_nodes(rng: random.Random, first: int) -> Iterator[Event]:
    """Each attempt lands on other nodes: steps take up to six times as long as before, with a silent evaluation."""
    usual = rng.choice([2.0, 15.0, 60.0]) * (1 + 5 * ((first * 2654435761) % 997) / 997)
    return steps(rng, usual, spread=0.3, evaluate=(50, min(10 * usual, 700), False), first=first)


def restarted_inside(rng: random.Random, first: int) -> Iterator[Event]:
    """torchrun restarts the workers in the same job: steps go back, and loading takes long without a word."""
    step, wait = first, 120.0
    yield Event(5.0)
    for turn in itertools.count(1):
        for _ in range(rng.randrange(100, 400)):
            step += 1
            wait += 6 * rng.lognormvariate(0, 0.1)
            yield Event(wait, step, "training")
            wait = 0.0
        step = max(first, step - rng.randrange(5, 90))
        yield Event(1.0, phase="startup")
        wait = rng.uniform(60, 2400) if turn % 2 else 30.0


def buffered(rng: random.Random, first: int) -> Iterator[Event]:
    """Standard output is a pipe with a buffer: nothing for minutes, then a hundred steps at once."""
    block = rng.randrange(40, 160)
    yield Event(5.0)
    for step in itertools.count(first + block, block):
        yield Event(
            sum(3 * rng.lognormvariate(0, 0.4) for _ in range(block)) + (90 if step == first + block else 0), step
        )


KINDS: dict[str, Run] = {
    "steady": steady,
    "heavy-tailed": heavy_tailed,
    "warm-up": warm_up,
    "evaluation, marked": evaluation_marked,
    "evaluation, silent": evaluation_silent,
    "saves that grow": growing_saves,
    "very heavy-tailed": very_heavy_tailed,
    "evaluation that grows": evaluation_growing,
    "slower nodes": slower_nodes,
    "restarted inside": restarted_inside,
    "buffered output": buffered,
}
