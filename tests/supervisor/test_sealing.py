"""Seals are made beside the loop, one checkpoint directory at a time, or by a Slurm job; nothing waits for them."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.checkpoints import verify
from chainwatch.checkpoints.seal import apply_seals, load_seal
from chainwatch.config.checkpoints import Checkpoints
from chainwatch.config.models import Chain
from chainwatch.config.site import Site
from chainwatch.simulation import batch
from chainwatch.supervisor.sealing import EVERY, JOB_EVERY, Answer, Order, Sealing, carry_out, script_of
from tests.checkpoints import torch_files
from tests.supervisor.play import Play


class Work:
    """An order that ends when the test says so."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.said: Answer | None = None
        self.stopped = False

    def answer(self) -> Answer | None:
        return self.said

    def stop(self) -> None:
        self.stopped = True


class Scene:
    """Sealing over a played cluster; what it starts is only noted."""

    def __init__(self, play: Play, **seal: Any) -> None:
        self.play = play
        self.begun: list[Work] = []
        self.sealing = Sealing(play.house, self._start)
        play.chain("run", batch(600, 1), checkpoints={"directory": "ckpt", "seal": seal or True})

    def _start(self, order: Order) -> Work:
        self.begun.append(Work(order))
        return self.begun[-1]

    def look(self, after: timedelta = timedelta(0)) -> None:
        self.play.clock.sleep(after.total_seconds())
        self.sealing.look(self.play.store.chains(), self.play.clock.now())


def test_one_order_at_a_time_and_each_chain_only_now_and_then(play: Play) -> None:
    scene = Scene(play)
    play.chain("other", batch(600, 1), checkpoints={"directory": "ckpt", "seal": True})
    play.chain("none", batch(600, 1), checkpoints="ckpt")
    play.chain("without", batch(600, 1))
    play.passes(1)
    for _ in range(3):
        scene.look()
    assert len(scene.begun) == 1
    scene.begun[0].said = Answer(("/c/step_1",))
    scene.look()
    scene.begun[1].said = Answer()
    scene.look()
    assert {work.order.place.chain for work in scene.begun} == {"run", "other"}
    assert len(scene.begun) == 2
    scene.look(EVERY)
    assert len(scene.begun) == 3


def test_a_pause_of_the_site_stops_sealing_and_its_rate_is_kept(play: Play) -> None:
    scene = Scene(play)
    play.passes(1)
    play.house.site = Site.model_validate({"storage_mb_per_second": 5})
    play.house.paused_by_site = "maintenance"
    scene.look()
    assert scene.begun == []
    play.house.paused_by_site = ""
    scene.look()
    assert scene.begun[0].order.site_rate == 2.5e6, "half of it; the readers have the other"
    scene.sealing.close()
    assert scene.begun[0].stopped


def test_a_job_seals_where_that_is_configured_and_no_second_one_is_queued_behind_it(play: Play) -> None:
    scene = Scene(play, where="job", sbatch=["--partition=cpu"])
    play.passes(1)
    before = len(play.calls("submit"))
    scene.look()
    assert scene.begun[0].order.only_look
    scene.begun[0].said = Answer(("/home/ada/ckpt/step_3",))
    scene.look()
    submitted = play.calls("submit")[before:]
    assert len(submitted) == 1
    scene.look(EVERY)
    assert len(scene.begun) == 1, "it may still wait in the queue"
    scene.look(JOB_EVERY)
    assert len(scene.begun) == 2
    scene.begun[1].said = Answer()
    scene.look()
    assert len(play.calls("submit")) == before + 1, "nothing is due any more"


def test_a_job_is_not_submitted_for_a_chain_that_is_only_observed(play: Play) -> None:
    scene = Scene(play, where="job")
    play.passes(1)
    play.house.observe_only = True
    scene.look()
    assert scene.begun == []


def settings(directory: Path, **seal: Any) -> Chain:
    return Chain.model_validate(
        {"batch": "/run.sh", "checkpoints": {"directory": str(directory), "seal": seal or True}}
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for step in (1, 2, 3):
        (tmp_path / "ckpt").mkdir(exist_ok=True)
        torch_files.save(tmp_path / "ckpt" / f"ckpt_{step}.pt", {"step": step})
    return tmp_path / "ckpt"


def order(play: Play, saved: Path, **more: Any) -> Order:
    from chainwatch.supervisor.readers import Place

    place = Place("run", settings(saved), str(saved.parent))
    return Order(place, str(saved.parent / "state"), timedelta(0), time.time() + 60, None, **more)


def test_the_newest_kept_steps_are_sealed_once(play: Play, saved: Path) -> None:
    wanted = order(play, saved)
    assert carry_out(wanted).done == (str(saved / "ckpt_3.pt"), str(saved / "ckpt_2.pt"))
    assert carry_out(wanted) == Answer()
    assert load_seal(str(saved / "ckpt_1.pt"), wanted.state) is None


def test_a_look_reads_nothing(play: Play, saved: Path) -> None:
    wanted = order(play, saved, only_look=True)
    assert len(carry_out(wanted).done) == 2
    assert load_seal(str(saved / "ckpt_3.pt"), wanted.state) is None


def test_a_process_of_its_own_seals_and_the_daemon_hears_of_it(play: Play, saved: Path) -> None:
    play.chain("run", batch(600, 1), directory=str(saved.parent), checkpoints={"directory": str(saved), "seal": True})
    play.passes(1)
    sealing = Sealing(play.house)
    told: list[str] = []
    play.house.say = lambda sentence, record, facts: told.append(sentence)
    for name in os.listdir(saved):
        os.utime(saved / name, (1.7e9, 1.7e9))
    try:
        end = time.monotonic() + 60
        while not told and time.monotonic() < end:
            sealing.look(play.store.chains(), play.clock.now())
            time.sleep(0.05)
    finally:
        sealing.close()
    assert told == [f"sealed {saved / 'ckpt_3.pt'}, {saved / 'ckpt_2.pt'}"]
    data = bytearray((saved / "ckpt_3.pt").read_bytes())
    data[-1] ^= 1
    (saved / "ckpt_3.pt").write_bytes(data)
    report = apply_seals(verify(str(saved), deep=True), str(play.house.state), True)
    assert report.newest_intact is not None
    assert report.newest_intact.step == 2


def test_the_script_of_a_sealing_job_seals(saved: Path, tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "seal.sh"
    where = Checkpoints.model_validate(
        {"directory": str(saved), "seal": {"where": "job", "keep": 1}, "format": "torch_zip"}
    )
    script.write_text(script_of(where, str(tmp_path), tmp_path / "state"))
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    assert load_seal(str(saved / "ckpt_3.pt"), str(tmp_path / "state")) is not None
    assert load_seal(str(saved / "ckpt_2.pt"), str(tmp_path / "state")) is None


@pytest.mark.parametrize(
    ("given", "enabled"), [(True, True), (False, False), ({"keep": 3}, True), ({"enabled": False}, False)]
)
def test_seal_is_a_switch_or_says_how(given: Any, enabled: bool) -> None:
    assert Checkpoints.model_validate({"directory": "c", "seal": given}).seal.enabled is enabled
    assert not Checkpoints.model_validate("c").seal.enabled
