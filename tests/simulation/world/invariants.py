"""What must never happen, asked after every step. The truth comes from the simulated nodes and disks alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from chainwatch.actions.tag import find
from chainwatch.config.models import HandOver
from chainwatch.model.chain import ChainState
from chainwatch.model.checkpoint import Status
from chainwatch.simulation import Trouble
from chainwatch.simulation.jobs import SimJob
from chainwatch.simulation.runs import Run
from chainwatch.simulation.training import Start, Trainer
from chainwatch.simulation.truth import holding_together, outlived_node, starts
from tests.simulation.world.plan import Happening
from tests.simulation.world.world import Tale, World

IDLE = 25 * 60.0
"""How long a chain may have no job, no timed wait and nobody told, while everything answers."""
HELD = 75 * 60.0
"""How long a job may be held before its people are told (30 minutes are configured, and a calm daemon looks seldom)."""
CHANGES = frozenset({"submit", "cancel", "hold", "release", "requeue"})


class Never(AssertionError):
    """Something that must never happen has happened."""


class Watch:
    """Remembers what it saw of one history, and raises `Never`."""

    def __init__(self) -> None:
        self._commits = -1
        self._judged: set[tuple[str, int]] = set()
        self._idle_since: dict[str, float] = {}
        self._held_since: dict[tuple[str, int, str], float] = {}
        self._overlaps: dict[str, int] = {}

    def __call__(self, world: World) -> None:
        for problem in self._problems(world):
            raise Never(f"{problem}\n{world.plan}\n{world.trace()}")

    def at_the_end(self, world: World) -> None:
        """What holds once everything is healed and has had days to come to rest."""
        self(world)
        for problem in self._final_problems(world):
            raise Never(f"{problem}\n{world.plan}\n{world.trace()}")

    def _problems(self, world: World) -> Iterator[str]:
        yield from self._silence_is_no_answer(world)
        yield from _submitted_once(world)
        for tale in world.tales.values():
            yield from self._one_at_a_time(world, tale)
            yield from _starts_from_the_best(world, tale)
            yield from self._somebody_cares(world, tale)
        if world.store.commits == self._commits:
            return  # the rest asks what the store says, and that is what it was
        self._commits = world.store.commits
        yield from self._told_once(world)
        for tale in world.tales.values():
            yield from _done_means_done(world, tale)
            yield from _user_data_is_kept(world, tale)
            yield from self._ends_are_real(world, tale)

    # 1. Two jobs of one chain run at the same time.

    def _one_at_a_time(self, world: World, tale: Tale) -> Iterator[str]:
        runs = world.runs(tale.name)
        if len(runs) == self._overlaps.get(tale.name):
            return
        self._overlaps[tale.name] = len(runs)
        for pair in holding_together(runs[-6:]):
            first, second = pair.first, pair.second
            if not _ours(tale, second) or second.restarts:
                continue  # somebody else's job, or Slurm's own requeue: not started by us
            if not _ours(tale, first) and second.started - first.started < 180:
                continue  # somebody else's job appeared between two polls, and has no dependency on ours
            yield f"1: jobs {first.job_id} and {second.job_id} of {tale.name} run at the same time"

    # 5. No live job, not done, and nobody was told.

    def _somebody_cares(self, world: World, tale: Tale) -> Iterator[str]:
        now = world.clock.time
        live = world.live(tale.name)
        held = [j for j in live if j.pending and j.held and not (tale.plan.standby and len(live) > 1)]
        if held and not self._held(world, tale, held[0]):
            yield f"5: job {held[0].job_id} of {tale.name} is held for long, and nobody was told"
        excused = (
            world.up_since is None
            or not world.healthy()
            or tale.disk.hangs
            or world.cluster.refusal is not None
            or world.live(tale.name)
        )
        record = None if excused else world.store.chain(tale.name)
        if record is None or record.state in {ChainState.DONE, ChainState.PAUSED, ChainState.NEW}:
            self._idle_since.pop(tale.name, None)
            return
        since = max(self._idle_since.setdefault(tale.name, now), world.up_since or now)
        if record.state in {ChainState.RESTING, ChainState.STOPPED}:
            if not _has_notice(world, f"{tale.name}:{record.state}"):
                yield f"5: {tale.name} is {record.state}, and nobody was told"
            return
        until = record.wait_until.timestamp() if record.wait_until else 0.0
        if now - since > IDLE and until < now - 120 and not _has_notice(world, f"{tale.name}:", since):
            yield f"5: {tale.name} has had no job for {(now - since) / 60:.0f} minutes, and nobody was told"

    def _held(self, world: World, tale: Tale, job: SimJob) -> bool:
        """Nothing is owed yet, or it is owed or told."""
        key = (tale.name, job.job_id, job.reason)
        if world.up_since is None or not world.healthy():
            self._held_since.pop(key, None)
            return True
        since = max(self._held_since.setdefault(key, world.clock.time), world.up_since)
        return world.clock.time - since < HELD or _has_notice(world, f"{tale.name}:pending:{job.job_id}")

    # 6. Silence from Slurm is read as an answer.

    def _silence_is_no_answer(self, world: World) -> Iterator[str]:
        silent = False
        for call in world.backend.calls[world.ticked_calls :]:
            if call.method == "queue" and call.outcome != "ok":
                silent = True
            elif silent and call.method in CHANGES:
                yield f"6: {call.method} in a tick in which squeue did not answer"

    def _ends_are_real(self, world: World, tale: Tale) -> Iterator[str]:
        for attempt in world.store.attempts(tale.name):
            key = (tale.name, attempt.number)
            if attempt.verdict is None or key in self._judged:
                continue
            self._judged.add(key)
            identity = (attempt.job.job_id, int(attempt.job.attempt.submitted.timestamp()))
            alive = [j for j in world.live(tale.name) if (j.job_id, int(j.submitted)) == identity]
            if any(not j.completing for j in alive):
                yield f"6: attempt {attempt.number} of {tale.name} was judged ended, and it lives"

    # 7. An alert that was owed is lost, or the same alert comes over and over.

    def _told_once(self, world: World) -> Iterator[str]:
        allowed = 1 + len(world.reaper.deaths)
        for key, times in Counter(t.key for t in world.told if not t.key.startswith("blind:")).items():
            if times > allowed:
                yield f"7: the alert {key} came {times} times"
        hours = Counter((t.chain, t.title, int(t.at // 3600)) for t in world.told)
        for (chain, title, _), times in hours.items():
            if times > 4 + allowed:
                yield f"7: {chain} was told {title!r} {times} times within an hour"

    def _final_problems(self, world: World) -> Iterator[str]:
        if world.store.undelivered():
            yield f"7: alerts were never delivered: {[n.key for n in world.store.undelivered()]}"
        for tale in world.tales.values():
            record = world.store.chain(tale.name)
            assert record is not None
            if not record.state.quiet:
                yield f"5: {tale.name} is still {record.state} after days of rest: {record.sentence}"
            if tale.disk.finished and record.state is not ChainState.DONE and not _person_spoke(tale):
                yield f"2: {tale.name} finished and is {record.state}: {record.sentence}"
            yield from _helpless(tale, record.state, record.sentence)


def _submitted_once(world: World) -> Iterator[str]:
    yield from (f"1: {doubled}" for doubled in world.doubled)
    sites = {i for t in world.tales.values() if t.site for i in t.site.submitted}
    tokens = Counter(
        tag.token
        for _, job_id, request in world.cluster.controller.accepted
        if job_id not in sites and (tag := find(request.comment)) is not None
    )
    for token, times in tokens.items():
        if times > 1:
            yield f"1: the submission {token} was made {times} times"


# 2. A chain that is proven done is resubmitted or reported dead, or one that is not is reported done.


def _done_means_done(world: World, tale: Tale) -> Iterator[str]:
    record = world.store.chain(tale.name)
    assert record is not None
    finished = tale.disk.finished_at
    if record.state is ChainState.DONE and finished is None:
        yield f"2: {tale.name} is reported done, and it is not: {record.sentence}"
    if finished is None or _finished_out_of_sight(world, tale) or _person_spoke(tale, finished):
        return
    for at, job_id, request in world.cluster.controller.accepted:
        tag = find(request.comment)
        intent = world.store.intent_by_token(tag.token) if tag is not None and request.script == tale.script else None
        if intent is not None and "standby" in intent.payload and intent.tried_at is not None:
            at = min(at, intent.tried_at.timestamp())  # its request may have waited in a busy controller's socket
        if at > finished and intent is not None:
            yield f"2: {tale.name} was finished, and job {job_id} was submitted"


def _finished_out_of_sight(world: World, tale: Tale) -> bool:
    """Processes that outlived their node finished it: their log is not that of any attempt that is watched."""
    return any(outlived_node(r) and r.silent == tale.disk.finished_at for r in world.runs(tale.name))


def _person_spoke(tale: Tale, since: float = 0.0) -> bool:
    return any(what in _PERSONAL and at >= since for at, what in tale.touched)


_PERSONAL = frozenset({Happening.RETRY, Happening.CANCELLED, Happening.ADMIN_CANCELLED, Happening.PAUSE})


# 3. A job resumes from a checkpoint that fails validation while an intact one exists, or silently from step 0.


def _starts_from_the_best(world: World, tale: Tale) -> Iterator[str]:
    for trainer, start in starts(tale.training):
        run = trainer.process.run
        if not _ours(tale, run) or _excused(world, tale, run, start):
            continue
        if start.path is None and start.best is not None:
            yield f"3: job {run.job_id} of {tale.name} began at step 0 while {start.best} was intact"
        elif start.path is not None and start.status is not Status.INTACT and start.best is not None:
            yield f"3: job {run.job_id} of {tale.name} loaded {start.path} ({start.status}) while {start.best} was intact"


def _excused(world: World, tale: Tale, run: Run, start: Start) -> bool:
    """Nobody could have known: bits flipped since the choice, or processes on a dead node wrote meanwhile."""
    chosen = min((at for at, job_id, _ in world.cluster.controller.accepted if job_id == run.job_id), default=0.0)
    rotted = any(chosen - 120 <= at <= start.at and path == start.path for at, path in tale.rotted)
    state = tale.disk.states.get(start.path or "")
    writer = state.writer if state is not None else None
    foreign = isinstance(writer, Trainer) and outlived_node(writer.process.run)
    return rotted or foreign or _never_seen(world, tale, run)


def _never_seen(world: World, tale: Tale, run: Run) -> bool:
    """Slurm requeued and restarted it, or it was cut, while the daemon could not look."""
    return run.restarts > 0 and not world.healthy()


# 4. User data is deleted or changed.


def _user_data_is_kept(world: World, tale: Tale) -> Iterator[str]:
    tale.disk.look()
    journaled = {m.path for m in world.store.moves()}
    for moved in tale.disk.moves:
        if moved.source not in journaled:
            yield f"4: {moved.source} vanished, and no move is journaled"
        if tale.plan.hand_over is not HandOver.SET_ASIDE:
            yield f"4: {moved.source} was moved, and the configuration does not allow it"
        if moved.status is Status.INTACT:
            yield f"4: {moved.source} was moved aside, and it was intact"
    for move in world.store.moves(state="made"):
        if move.kind == "set_aside" and not os.path.isdir(move.target) and not os.path.isdir(move.path):
            yield f"4: {move.path} was moved to {move.target} and is in neither place"


def _ours(tale: Tale, run: Run) -> bool:
    return tale.ours(run.job_id, run.token)


def _has_notice(world: World, prefix: str, since: float = 0.0) -> bool:
    active = [n for n in world.store.active_notices() if n.key.startswith(prefix) and n.created.timestamp() >= since]
    return bool(active)


def _helpless(tale: Tale, state: ChainState, sentence: str) -> Iterator[str]:
    """A chain that nobody touched and that nothing permanent ails must come to its end by itself."""
    touched = {what for _, what in tale.touched} - {Happening.PREEMPT}
    permanent = any(f.trouble is not Trouble.HANG and f.times is None for f in tale.plan.faults)
    if state is ChainState.DONE or touched or permanent or tale.rotted or tale.plan.faults:
        return
    best = tale.disk.newest_intact()
    if best is not None and not any(e in sentence for e in ("times in a row", "failovers", "the same failure")):
        yield f"5: {tale.name} gave up although nothing permanent ails it: {state}, {sentence}"
