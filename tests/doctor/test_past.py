"""What a chain's history says about its saves, and the advice that comes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chainwatch.cli.app import build
from chainwatch.diagnosis.hang import Pace
from chainwatch.doctor.lint import Site, lint
from chainwatch.doctor.past import measured
from chainwatch.model.chain import Attempt
from chainwatch.model.checkpoint import Status
from chainwatch.model.verdict import Cause, Outcome, Retry, Verdict
from chainwatch.store import open_store
from chainwatch.store.records import Save
from tests.store.build import NOW, attempt, record

HOUR = timedelta(hours=1)


def ran(number: int, outcome: Outcome = Outcome.PREEMPTED) -> Attempt:
    """Six hours, of every ten."""
    start = NOW + number * 10 * HOUR
    verdict = Verdict(outcome, Cause.PREEMPTION, Retry.YES, 1.0, "")
    one = attempt(number, number, submitted=start)
    return replace(one, job=replace(one.job, start=start), ended=start + 6 * HOUR, verdict=verdict)


def saved(number: int, *hours: float) -> list[Save]:
    return [Save(f"/c/{number}-{h}", NOW + (number * 10 + h) * HOUR, None, Status.INTACT) for h in hours]


PAST = ([ran(n) for n in range(1, 5)], [*saved(1, 2, 4), *saved(2, 2, 4), *saved(3, 2, 4)])


def test_saves_and_ends_are_measured_within_the_attempts() -> None:
    past = measured(*PAST, Pace())
    assert (past.between_failures, past.save_every, past.save_takes) == (6 * HOUR, 2 * HOUR, None)
    done = measured([*PAST[0], ran(5, Outcome.DONE)], PAST[1], Pace())
    assert done.between_failures == 7.5 * HOUR, "an attempt that reached the end ran, and was not interrupted"
    pace = Pace()
    for _ in range(4):
        pace = pace.learned("saving", 40)
    takes = measured(*PAST, pace).save_takes
    assert takes is not None
    assert 30 <= takes.total_seconds() <= 60


def test_little_is_known_at_first_and_nothing_is_said() -> None:
    past = measured(PAST[0][:2], PAST[1][:3], Pace())
    assert (past.between_failures, past.save_every) == (None, None)
    assert not [f for f in lint("", Site()) if f.code == "save_interval"]


@pytest.mark.parametrize(("every", "said"), [(2 * HOUR, True), (timedelta(minutes=30), False)])
def test_without_the_time_of_a_save_only_a_real_loss_is_told(every: timedelta, said: bool) -> None:
    found = [f for f in lint("", Site(between_failures=6 * HOUR, save_every=every)) if f.code == "save_interval"]
    assert bool(found) is said
    if said:
        assert "about 17% of the training is lost" in found[0].what
        assert found[0].why == "If a save takes 1m the least time is lost by saving every 27m."


def test_lint_weighs_the_saves_of_a_chain(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    store.add_chain(record())
    for one in PAST[0]:
        store.put_attempt("llama", one)
    store.put_saves("llama", PAST[1])
    store.close()
    (tmp_path / "job.sh").write_text("#!/bin/sh\ntrue\n")
    words = ["lint", str(tmp_path / "job.sh"), "--state", str(tmp_path / "state"), "--chain"]
    done = CliRunner().invoke(build("lint"), [*words, "llama"])
    assert "it saves every 2h, and its jobs end every 6h" in done.output
    assert CliRunner().invoke(build("lint"), [*words, "nobody"]).exit_code == 1
