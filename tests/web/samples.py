"""A real store in which the night of the README has happened, hostile names included."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from chainwatch.alerts import Kind, body
from chainwatch.model.chain import Attempt, ChainState, ExcludedNode, Stop, Wait
from chainwatch.model.checkpoint import Status
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.verdict import Cause, Line, Outcome, Retry, RuledOut, Verdict
from chainwatch.store import Store, open_store
from chainwatch.store.records import Point, Save
from tests.web.conftest import FACTS, NOW, chain

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='alert(3)' \x1b[31m\u202e&lt;"
EVIL_CHAIN = "evil<script>alert(4)</script>"


def verdict(outcome: Outcome, cause: Cause, sentence: str, *lines: Line) -> Verdict:
    ruled_out = (RuledOut(Cause.USER_CODE, "the same step ran before"),)
    return Verdict(
        outcome, cause, Retry.YES, 0.95, sentence, "Nothing to do.", evidence=lines, ruled_out=ruled_out,
        weaker=("sinfo did not answer",),
    )  # fmt: skip


def attempt(number: int, hours: float, length: float, ended: Verdict | None, saved: int | None = None) -> Attempt:
    submitted = NOW - timedelta(hours=hours)
    start = submitted + timedelta(minutes=20)
    end = None if ended is None else start + timedelta(hours=length)
    state = JobState.RUNNING if ended is None else JobState.FAILED
    job = Job(
        AttemptId("c1", 4700 + number, submitted), str(4700 + number), state, Source.ACCOUNTING, start=start, end=end,
        nodes=(f"n{number:03}",),
    )  # fmt: skip
    before = None if saved is None else saved - 500
    return Attempt(
        job, number, True, ended, end, step_before=number * 1000, step_after=None if saved is None else saved + 90,
        saved_before=before, saved_after=saved,
    )  # fmt: skip


def leave_a_track(store: Store) -> None:
    """What the loop saw of run-a while its jobs ran: steps and loss, and its saves, one of them cut by a preemption."""
    saves: list[Save] = []
    with store.transaction():
        for one in store.attempts("run-a"):
            start, end = one.job.start or NOW, one.ended or NOW
            begun, reached = one.saved_before or 0, one.step_after or 4000
            if one.ended is None:
                begun = 3700
            moments = int((end - start) / timedelta(minutes=10))
            for number in range(1, moments + 1):
                at = start + number * timedelta(minutes=10)
                if one.number == 3 and number > moments - 16:
                    break  # it hangs
                step = begun + (reached - begun) * number // max(1, moments)
                store.add_point("run-a", Point(at, step, 2.2 + 6 / (1 + step / 400) + 0.1 * (step * 7919 % 11 / 11)))
                if step // 100 > (step - (reached - begun) // max(1, moments)) // 100:
                    saves.append(Save(f"/ckpt/step{step // 100 * 100}", at, step // 100 * 100, Status.INTACT))
            if one.number == 1:
                saves.append(Save("/ckpt/step3000", end, 3000, Status.DAMAGED))
        store.put_saves("run-a", saves)


def fill(where: Path) -> Store:
    """The store, filled."""
    store = open_store(where)
    store.add_chain(
        chain("run-a", step=4000, saved_step=3900, target=10000, facts=FACTS, environment={"HF_TOKEN": "hf_verysecret"})
    )
    store.add_chain(chain("run-b", ChainState.STOPPED, sentence=EVIL, step=10))
    store.add_chain(chain(EVIL_CHAIN, ChainState.WAITING, sentence=EVIL, wait_until=NOW + timedelta(hours=1)))
    store.add_chain(chain("done & gone", ChainState.DONE, step=100, target=100))
    log = Line("/logs/4702.out", 812, "RuntimeError: PytorchStreamReader failed reading zip archive")
    ends = [
        verdict(Outcome.PREEMPTED, Cause.PREEMPTION, "preempted while it saved step 3000"),
        verdict(Outcome.FAILED, Cause.CHECKPOINT_CORRUPT, "the checkpoint of step 3000 is damaged", log),
        verdict(Outcome.HUNG, Cause.HANG, "no progress for 40 minutes"),
        verdict(Outcome.NODE_FAILED, Cause.HARDWARE_GPU, "GPU 3 of n004 fell off the bus (Xid 79)"),
    ]
    for number, end in enumerate(ends, 1):
        length = {Cause.CHECKPOINT_CORRUPT: 0.1, Cause.HARDWARE_GPU: 4.5}.get(end.cause, 8)
        store.put_attempt("run-a", attempt(number, 48 - 10 * number, length, end, 2000 + 500 * number))
    store.put_attempt("run-a", attempt(5, 3, 0, None))
    leave_a_track(store)
    evil = verdict(Outcome.FAILED, Cause.USER_CODE, EVIL, Line(EVIL, 1, EVIL))
    for hours, name in ((5, "run-b"), (6, EVIL_CHAIN)):
        one = replace(attempt(1, hours, 1, evil, 10), resumed_from=EVIL)
        store.put_attempt(name, replace(one, job=replace(one.job, nodes=(EVIL,), shown_id=EVIL)))
        store.add_decision(name, 1, Stop(EVIL, EVIL), NOW, EVIL)
    store.add_decision("run-a", 4, Wait(NOW, "x"), NOW, "waits a minute for the storage")
    store.owe("run-b", "b", "critical", EVIL, body(Kind.PERSON, what=EVIL), NOW - timedelta(minutes=9))
    store.exclude(ExcludedNode("n004", "Xid 79 " + EVIL, NOW, NOW + timedelta(days=2), "run-a"))
    return store
