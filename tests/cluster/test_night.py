"""The night on a real cluster: torn save, naive restart, preemption, time limit, lost node, and done, exactly once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster
from dev.night import CHAIN, STEPS, Night


@pytest.mark.slow(200)
@pytest.mark.timeout(420)
def test_a_chain_survives_the_night_and_is_done_once(idle_cluster: PrivateCluster, tmp_path: Path) -> None:
    night = Night(idle_cluster, tmp_path / "run", lambda sentence: None)
    try:
        night.play()
        attempts = night.attempts()
        log = night.log()
        status = night.status()
        submitted = _jobs(idle_cluster)
    finally:
        night.stop()

    assert max(submitted) == max(a["job_id"] for a in attempts), "nothing was submitted after done"
    causes = [a["cause"] for a in attempts]
    assert causes[:3] == ["preemption", "checkpoint_corrupt", "preemption"]
    assert "time_limit" in causes
    assert "hardware_node" in causes
    assert attempts[-1]["outcome"] == "done"
    assert causes.count("completed") == 1
    assert (status["state"], status["step"], status["saved_step"]) == ("done", STEPS, STEPS)

    saved = [a["saved_step"] for a in attempts]
    assert saved == sorted(saved), "no saved step was ever lost"
    for attempt in attempts[2:]:
        resumed = attempt["resumed_from"]
        assert resumed, "every job of chainwatch's was given an intact checkpoint"
        assert (Path(resumed) / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").exists()
    spans = sorted((a["started"], a["ended"]) for a in attempts)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), "no two ran at once"
    assert log.count(f"{CHAIN}: done: ") == 1, "it was said once"
    told = [n for n in _notices(night) if n.startswith(f"{CHAIN}:done")]
    assert len(told) == 1


def _jobs(cluster: PrivateCluster) -> list[int]:
    shown = cluster.run("sacct", "-nXP", "-o", "JobIDRaw", "-S", "now-1hour", f"--name={CHAIN}").stdout
    return [int(line) for line in shown.split()]


def _notices(night: Night) -> list[str]:
    import sqlite3

    [path] = (night.directory / "state").glob("*.db")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return [row[0] for row in db.execute("select key from notices")]
