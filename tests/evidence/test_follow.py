"""Logs that grow are read as they grow: cut, rotated, requeued, late, in bars, by many ranks, and only what is new."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chainwatch.config.models import Chain
from chainwatch.evidence import follow as following
from chainwatch.evidence.follow import Following, Phase, follow
from chainwatch.evidence.progress import ProgressReader
from chainwatch.evidence.signs import heartbeats, saves
from chainwatch.model.clock import SystemClock
from chainwatch.model.job import AttemptId, Job, JobState, Source
from chainwatch.model.verdict import Progress
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.workers import ProcessReaders

NOW = datetime.now(UTC).replace(microsecond=0)
READER = ProgressReader()


def line(step: int) -> str:
    return f"steps: {step} loss: {4 / (1 + step):.3f} iter time (s): 0.1\n"


class Log:
    """One log, looked at again and again."""

    def __init__(self, path: Path, since: datetime | None = None) -> None:
        self.path = path
        self.since = since
        self.state = Following()
        self.now = NOW

    def add(self, text: str) -> None:
        with self.path.open("a") as log:
            log.write(text)

    def look(self, after: float = 60) -> int | None:
        self.now += timedelta(seconds=after)
        self.state = pickle.loads(pickle.dumps(follow(self.state, [str(self.path)], READER, self.now, self.since)))
        newest = self.state.newest()
        return newest.step if newest else None


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "out")


def test_a_log_that_appears_late_is_met_when_it_does(log: Log) -> None:
    assert log.look() is None
    log.add(line(1))
    assert log.look() == 1


def test_a_line_is_read_when_it_is_whole(log: Log) -> None:
    log.add(line(1) + "steps: 12")
    assert log.look() == 1
    log.add("3 loss: 1.0 iter\n")
    assert log.look() == 123


def test_a_bar_of_carriage_returns_is_read_while_it_runs(log: Log) -> None:
    log.add("  5%|▌         | 5/100 [00:01<00:20,  5.0it/s]\r 10%|█         | 10/100 [00:02<00:18,  5.0it/s]\r")
    assert log.look() == 10
    log.add(" 11%|█         | 11/100 [00:02<00:18,  5.0it/s]\r")
    assert (log.look(), log.state.newest().total) == (11, 100)  # type: ignore[union-attr]


def test_a_launcher_that_restarts_its_workers_is_counted_and_they_start_up_again(log: Log) -> None:
    torchrun = (
        "E1129 17:02:11 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 3\n"
        "I1129 17:02:11 torch/distributed/elastic/agent/server/api.py:942] [default] Worker group FAILED. 2/3 attempts "
        "left; will restart worker group\n"
        "I1129 17:02:15 torch/distributed/elastic/agent/server/api.py:704] [default] Rendezvous'ing worker group\n"
    )
    log.add(line(500))
    assert log.look() == 500
    log.add(torchrun)
    log.look()
    cursor = log.state.cursors[str(log.path)]
    assert (cursor.step, cursor.phase, cursor.restarts) == (500, "startup", 1)
    log.add(line(421))
    assert log.look() == 421, "steps go back"
    cursor = log.state.cursors[str(log.path)]
    assert (cursor.phase, cursor.restarts) == ("training", 1)


def test_a_log_that_was_cut_is_read_anew_even_when_it_grew_past_the_old_size(log: Log) -> None:
    log.add(line(500) * 3)
    assert log.look() == 500
    log.path.write_text(line(2) * 50)
    assert log.look() == 2, "the run began anew: its step went back"


def test_a_rotated_log_is_followed_by_its_name(log: Log) -> None:
    log.add(line(7))
    log.look()
    log.path.rename(log.path.with_suffix(".1"))
    log.add(line(8))
    assert log.look() == 8


def test_a_requeue_under_the_same_name_does_not_count_the_text_of_before(log: Log) -> None:
    log.since = datetime.now(UTC) - timedelta(minutes=10)
    old = (log.since - timedelta(hours=20)).strftime("%F %T")
    log.add(f"[{old}] saving checkpoint\n[{old}] step: 900 loss: 1.0\n[{old}] evaluating\n" * 3)
    os.utime(log.path, (log.since.timestamp() - 3600,) * 2)
    assert log.look() is None
    log.add(f"[{datetime.now(UTC):%F %T}] starting\n")
    assert (log.look(), log.state.cursors[str(log.path)].phase) == (None, None)
    log.add(line(3))
    assert log.look() == 3


def test_attaching_cuts_what_an_earlier_attempt_wrote_into_the_same_file(log: Log) -> None:
    log.since = datetime.now(UTC) - timedelta(minutes=10)
    old = (log.since - timedelta(hours=20)).strftime("%F %T")
    log.add(f"[{old}] step: 900 loss: 1.0\n" * 200 + f"[{datetime.now(UTC):%F %T}] starting\n")
    assert log.look() is None


def test_the_phase_is_what_was_marked_since_the_newest_step(log: Log) -> None:
    def phase() -> Phase | None:
        log.look()
        return log.state.cursors[str(log.path)].phase

    log.add(line(1))
    assert phase() is Phase.TRAINING
    log.add("***** Running Evaluation *****\n")
    assert phase() is Phase.EVALUATION
    log.add("  Num examples = 3\n")
    assert phase() is Phase.EVALUATION
    log.add(line(2) + "Saving model checkpoint to run/checkpoint-2\n")
    assert phase() is Phase.SAVING
    log.add(line(3))
    assert phase() is Phase.TRAINING


def test_rate_counts_the_standstill_and_forgets_steps_before_a_restart_within_the_job(log: Log) -> None:
    for step in range(10, 60, 10):
        log.add(line(step))
        log.look()
    assert log.state.rate(log.now) == pytest.approx(10 / 60)
    assert log.state.rate(log.now + timedelta(minutes=16)) == pytest.approx(40 / (240 + 960))
    log.add(line(5))
    log.look()
    assert log.state.rate(log.now) is None


def test_nan_is_seen(log: Log) -> None:
    log.add("{'loss': nan, 'grad_norm': nan, 'epoch': 0.1, 'step': 5}\n")
    log.look()
    loss = log.state.newest().loss  # type: ignore[union-attr]
    assert loss is not None
    assert loss != loss


def test_a_pipe_or_a_directory_under_a_logs_name_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths = [str(tmp_path / "pipe"), str(tmp_path)]
    assert follow(Following(), paths, READER, NOW).cursors == {}


def test_json_lines_are_followed_too(log: Log) -> None:
    log.add('{"global_step": 41, "train": {"x": 1}, "loss": 0.5}\n')
    assert log.look() == 41


def test_a_poll_reads_what_is_new_however_large_the_file(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with log.path.open("wb") as out:
        out.seek(10 << 30)  # a hole: ten gigabytes that are never to be read
        out.write(b"\n" + line(5).encode())
    read = _counted(monkeypatch)
    assert log.look() == 5
    assert read() < 1 << 19
    log.add(line(6))
    assert log.look() == 6
    assert read() < 1 << 10
    log.look()
    assert read() == 0, "nothing new: not even opened"


def _counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    total = [0]
    real = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        got = real(fd, length, offset)
        total[0] += len(got)
        return got

    monkeypatch.setattr(following.os, "pread", pread)

    def taken() -> int:
        count, total[0] = total[0], 0
        return count

    return taken


def test_a_thousand_logs_of_ten_new_lines_cost_under_100_ms(tmp_path: Path) -> None:
    logs = [Log(tmp_path / f"{n}") for n in range(1000)]
    for each in logs:
        each.add(line(1))
        each.look()
    costs = []
    for round_ in range(3):
        for each in logs:
            each.add("".join(line(10 * round_ + n) for n in range(2, 12)))
        before = time.process_time()
        for each in logs:
            each.state = follow(each.state, [str(each.path)], READER, NOW)
        costs.append(time.process_time() - before)
    assert all(each.state.step == 31 for each in logs)
    assert min(costs) < 0.1, f"{min(costs):.3f} s"


@pytest.mark.benchmark(group="follow")
def test_bench_a_poll_of_a_thousand_growing_logs(tmp_path: Path, benchmark: Callable[..., object]) -> None:
    logs = [Log(tmp_path / f"{n}") for n in range(1000)]

    def grow() -> None:
        for each in logs:
            each.add("".join(line(n) for n in range(10)))

    def poll() -> None:
        for each in logs:
            each.state = follow(each.state, [str(each.path)], READER, NOW)

    benchmark.pedantic(poll, setup=grow, rounds=5)  # type: ignore[attr-defined]


JOB = Job(AttemptId("c", 9, NOW), "9", JobState.RUNNING, Source.QUEUE, start=NOW - timedelta(hours=1))


def test_the_programs_own_heartbeat_tells_the_step_and_the_wrappers_beat_does_not(tmp_path: Path) -> None:
    directory = tmp_path / ".chainwatch" / "jobs" / "9-0"
    directory.mkdir(parents=True)
    (directory / "node-0-n01.json").write_text(json.dumps({"at": NOW.timestamp(), "node": "n01"}))
    assert heartbeats([str(tmp_path)], JOB).life == ""
    for rank in (0, 1):
        said = {"at": NOW.timestamp(), "step": 40 + rank, "phase": "saving"}
        (directory / f"step-0-{rank}.json").write_text(json.dumps(said))
    signs = heartbeats([str(tmp_path)], JOB)
    assert (signs.step, signs.phase, signs.source) == (41, Phase.SAVING, "heartbeat")


def test_a_growing_checkpoint_is_life_and_trainer_state_tells_the_step(tmp_path: Path) -> None:
    assert saves(str(tmp_path / "none"), None).life == ""
    newest = tmp_path / "checkpoint-20"
    newest.mkdir()
    (newest / "model.bin").write_bytes(b"x")
    before = saves(str(tmp_path), None).life
    (newest / "model.bin").write_bytes(b"xx")
    assert saves(str(tmp_path), None).life != before
    (newest / "trainer_state.json").write_text('{"global_step": 20, "max_steps": 90}')
    assert (saves(str(tmp_path), None).step, saves(str(tmp_path), None).total) == (20, 90)
    assert saves(str(tmp_path), NOW + timedelta(days=1)).step is None, "an earlier attempt's"


def test_the_reader_processes_hand_the_state_back_and_forth(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.touch()
    place = Place("run", Chain(batch=script), str(tmp_path))
    job = Job(JOB.attempt, "9", JobState.RUNNING, Source.QUEUE, directory=str(tmp_path), stdout="out")
    readers = ProcessReaders(SystemClock(), patience=30)
    try:
        seen = []
        for step in (1, 2, 3):
            with (tmp_path / "out").open("a") as log:
                log.write(line(step))
            answer = readers.progress(place, job, now=NOW + timedelta(seconds=10 * step))
            assert isinstance(answer, Progress), answer
            seen.append((answer.step, answer.rate, answer.life))
    finally:
        readers.close()
    assert [step for step, _, _ in seen] == [1, 2, 3]
    assert seen[-1][1] == pytest.approx(0.1)
    assert len({life for _, _, life in seen}) == 3
