"""Beside a site's own service, which resubmits what was preempted or cancelled, and scripts that pick the highest step."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainwatch.model.chain import ChainState
from tests.cluster.stand import Stand

TRAIN = Path(__file__).parents[2] / "dev" / "train.py"
NAIVE = (
    f"{sys.executable} {TRAIN} --checkpoints checkpoints --resume auto --steps 60 --save-every 10 --step-seconds 0.1"
)
SITE = """
while sleep 1; do
    for job in $(sacct -nX -S now-10minutes -E now --name=$1 -s PREEMPTED,CANCELLED -o JobIDRaw); do
        grep -qx $job seen 2>/dev/null && continue
        echo $job >>seen
        sleep 10
        sbatch --parsable --qos=extra --no-requeue --job-name=$1 --output=$PWD/%x-%j.out train.sh >>resubmitted
    done
done
"""
"""The stand-in, with a pause: a service asks in turns, too, and what starts while the last job still ends finds what that
one is writing."""


@pytest.fixture
def name() -> str:
    return f"run-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def site(stand: Stand, name: str) -> Iterator[None]:
    words = ["bash", "-c", SITE, "site", name]
    with subprocess.Popen(words, cwd=stand.directory, env=stand.cluster.env, start_new_session=True) as service:
        yield
        service.kill()


def saving(stand: Stand, step: int) -> bool:
    """The model state of that step is being written."""
    state = stand.directory / "checkpoints" / f"global_step{step}" / "mp_rank_00_model_states.pt"
    return state.exists() and 100_000 < state.stat().st_size < 3_000_000


@pytest.mark.slow(60)
def test_what_the_site_resubmits_starts_intact_and_nothing_is_doubled(stand: Stand, name: str, site: None) -> None:
    fast = ["--steps", "10", "--step-seconds", "0", "--save-seconds", "0"]
    subprocess.run([*NAIVE.split(), *fast], cwd=stand.directory, check=True, capture_output=True, timeout=60)
    # Killed at the end of its grace, in the middle of its save: what exits 1 by itself is FAILED (22.05), and no site acts.
    stand.behave(f"exec {NAIVE} --save-seconds 120 --on-term ignore")
    stand.chain(
        name,
        resubmitter={"by": "site", "grace": "1m"},
        checkpoints={"directory": "checkpoints", "hand_over": "set_aside", "settle": "3s"},
        done={"step": 60, "mark": "training finished at step"},
    )
    job = stand.submit(name)
    stand.until(lambda: saving(stand, 20), "step 20 is being saved")
    stand.behave(f"exec {NAIVE} --save-seconds 1")
    stand.preempt(job)
    stand.until(lambda: stand.runs(name, 2), "the site's job runs")
    pointer = stand.directory / "checkpoints" / "latest"
    stand.until(lambda: pointer.read_text() == "global_step30", "it saves step 30")
    second = stand.attempts(name)[1]
    stand.cluster.run("scancel", str(second.job.job_id))
    stand.until(lambda: stand.is_(name, ChainState.DONE), "the chain is done", 90)
    stand.passes()
    attempts = stand.attempts(name)
    theirs = [int(line) for line in (stand.directory / "resubmitted").read_text().split()]
    assert [a.job.job_id for a in attempts] == [job, *theirs] == [j.job_id for j in stand.jobs(name)]
    assert [a.ours for a in attempts] == [True, False, False]
    loaded = [(stand.directory / f"{name}-{number}.out").read_text() for number in theirs]
    assert "successfully loaded checkpoint of step 10" in loaded[0], "and not the torn step 20"
    assert "successfully loaded checkpoint of step" in loaded[1]
