"""An outage of the cluster: its chains are held until a probe shows recovery, and return one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.config.models import Chain
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.verdict import Cause, Finding, Line, LogEvidence, Retry
from chainwatch.simulation import batch
from chainwatch.supervisor import recovered
from chainwatch.supervisor.readers import Place, Silent
from tests.supervisor.play import Play

NAMES = ("a", "b", "c")
ALONE = ["--cpus-per-task=8"]
EIO = Finding(
    "storage/io-error", Cause.STORAGE, 80, Line("/home/ada/log", 9, "OSError: [Errno 5] Input/output error"), 9,
    retry=Retry.WAIT,
)  # fmt: skip


def told(play: Play) -> list[str]:
    return [n.key for n in play.store.undelivered() if n.key.startswith("incident")]


def running(play: Play) -> list[str]:
    return [name for name in NAMES if play.state(name) is ChainState.RUNNING]


def storage_outage(play: Play) -> None:
    """Three chains on three nodes end of an I/O error in the same minute."""
    play.files.logs = LogEvidence(findings=(EIO,))
    play.files.broken = "/home/ada/.chainwatch/probe cannot be written: Input/output error"
    for name in NAMES:
        play.chain(name, batch(600, 1), sbatch=[f"--job-name={name}", *ALONE])
    play.submit(*NAMES)
    play.until(lambda: all(play.store.attempts(n)[0].verdict for n in NAMES))


def test_chains_wait_for_storage_as_long_as_the_probe_fails_and_return_spread_out(play: Play) -> None:
    storage_outage(play)
    play.passes(40)
    assert [play.state(name) for name in NAMES] == [ChainState.WAITING] * 3
    assert len(play.calls("submit")) == 3, "nothing was submitted for as long as it lasted"
    assert "cannot be written: Input/output error" in play.record("a").sentence
    [key] = told(play)
    play.files.broken, play.files.logs = "", LogEvidence()
    play.until(lambda: len(running(play)) == 3)
    starts = [play.store.attempts(name)[-1].job.start for name in NAMES]
    assert len({start for start in starts if start}) > 1, "they return one after the other"
    assert told(play) == [key], "one alert for all chains and all hours"
    assert not any(n.key == key for n in play.store.active_notices()), "which is over now"


def test_storage_is_written_only_where_chainwatch_may_act(play: Play) -> None:
    storage_outage(play)
    for name in NAMES[:2]:
        play.chains[name] = play.chains[name].model_copy(update={"mode": Mode.OBSERVE})
    play.reload()
    play.files.probed.clear()
    play.passes(5)
    assert set(play.files.probed) <= {("a", False), ("b", False), ("c", True)}
    assert play.files.probed


def test_storage_that_hangs_has_not_recovered(play: Play) -> None:
    storage_outage(play)
    play.files.broken = Silent("storage does not answer yet")
    play.passes(10)
    assert [play.state(name) for name in NAMES] == [ChainState.WAITING] * 3
    assert "storage does not answer yet" in play.record("a").sentence


def test_a_daemon_that_is_killed_in_an_incident_goes_on_holding(play: Play) -> None:
    storage_outage(play)
    play.passes(10)
    play.start()
    play.passes(5)
    assert len(play.calls("submit")) == 3
    assert len(told(play)) == 1


def test_a_person_sends_one_chain_on_and_the_others_wait(play: Play) -> None:
    storage_outage(play)
    play.passes(5)
    play.store.update_chain("a", retried_at=play.clock.now())
    play.passes(3)
    assert running(play) == ["a"]


def test_nodes_that_die_together_are_not_blamed_and_their_return_ends_the_incident(play: Play) -> None:
    for name in NAMES:
        play.chain(name, sbatch=[f"--job-name={name}", *ALONE, "--no-requeue"], recovery={"backoff": "1s"})
    play.submit(*NAMES)
    used = sorted({node for name in NAMES for job in play.live(name) for node in job.nodes})
    assert len(used) == 3
    for node in used:
        play.lab.cluster.kill_node(node)
    play.until(lambda: all(play.store.attempts(n)[0].verdict for n in NAMES))
    play.until(lambda: told(play))
    play.passes(3)
    assert play.store.excluded(play.clock.now()) == [], "no node is blamed"
    assert [play.state(name) for name in NAMES] == [ChainState.WAITING] * 3
    assert "is down" in play.record("a").sentence
    for node in used:
        play.lab.cluster.restore(node)
    play.until(lambda: len(running(play)) == 3)
    assert not [n for n in play.store.active_notices() if n.key.startswith("incident")]


def test_a_service_is_taken_for_recovered_when_the_controller_answers(play: Play) -> None:
    play.chain("a")
    incident = recovered.Incident(Cause.TRANSIENT_SERVICE, ("a",), ("n1",), play.clock.now(), play.clock.now())
    assert recovered.probe(incident, [], [play.backend], play.files) == ""
    play.lab.cluster.stop_controller()
    assert "sim does not answer" in recovered.probe(incident, [], [play.backend], play.files)


def place(directory: Path) -> Place:
    return Place("run", Chain.model_validate({"batch": "/x.sh", "checkpoints": "ckpt"}), str(directory))


def test_a_storage_probe_looks_reads_writes_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "step_1").write_text("x")
    assert recovered.storage(place(tmp_path), write=False) == ""
    assert not (tmp_path / ".chainwatch").exists(), "looking writes nothing"
    assert recovered.storage(place(tmp_path), write=True) == ""
    assert list((tmp_path / ".chainwatch").iterdir()) == []


def test_a_storage_probe_says_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recovered.os, "fsync", full)
    assert "cannot be written: No space left on device" in recovered.storage(place(tmp_path), write=True)


def test_a_storage_probe_of_a_directory_that_is_gone_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        recovered.storage(place(tmp_path / "gone"), write=False)
