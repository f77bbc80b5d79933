"""Kinds of chains, side by side under one daemon on a real Slurm: het jobs, arrays, edited scripts, bare environments."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import chdir, closing
from pathlib import Path
from unittest.mock import patch

import pytest
from dev.cluster import PrivateCluster

from chainwatch.cli.__main__ import main
from chainwatch.model.chain import ChainState
from chainwatch.model.clock import SystemClock
from chainwatch.model.verdict import Cause
from tests.cluster.stand import NCCL, Stand

DONE = "training finished at step 10"
FAILS_FIRST = f"""\
if [ -e {{name}}.failed ]; then echo '{DONE}'; exit 0; fi
while [ ! -e go ]; do sleep 0.2; done
touch {{name}}.failed
{NCCL}
"""
HEAD = "#!/bin/bash\n#SBATCH --output=%x-%j.out --time=10\n"
HET = "#SBATCH --ntasks=1\n#SBATCH hetjob\n#SBATCH --ntasks=1\n"
ARRAY = f"""\
[ $SLURM_ARRAY_TASK_ID = 2 ] && echo '{DONE}'
[ $SLURM_ARRAY_TASK_ID = 0 ] || exit 0
while [ ! -e go ]; do sleep 0.2; done
{NCCL}
"""
BARE = """\
echo "secret=$SECRET chain=$CHAINWATCH_CHAIN resume=${CHAINWATCH_RESUME_FILE:-none}"
"""


class Kinds(Stand):
    """A stand with a script for each chain."""

    def __init__(self, cluster: PrivateCluster, directory: Path) -> None:
        super().__init__(cluster, directory)
        self.mark = uuid.uuid4().hex[:8]

    def name(self, kind: str) -> str:
        return f"{kind}-{self.mark}"

    def write(self, kind: str, body: str, head: str = HEAD) -> Path:
        path = self.directory / f"{kind}.sh"
        path.write_text(head + body.replace("{name}", kind))
        return path

    def add(self, kind: str, body: str, head: str = HEAD, **settings: object) -> None:
        options = [f"--job-name={self.name(kind)}", "--no-requeue"]
        self.chain(self.name(kind), batch=self.write(kind, body, head), sbatch=options, **settings)

    def logs(self, kind: str) -> list[str]:
        """What the chain's jobs printed, oldest first."""
        found = self.directory.glob(f"{self.name(kind)}-*.out")
        return [path.read_text() for path in sorted(found, key=lambda p: p.stat().st_mtime)]


@pytest.fixture
def kinds(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Kinds]:
    with closing(Kinds(cluster, tmp_path)) as made:
        yield made


def test_every_kind_of_chain_waits_while_the_site_pauses_and_comes_to_its_end_afterwards(kinds: Kinds) -> None:
    kinds.add("het", FAILS_FIRST, HEAD + HET)
    kinds.add("lane", ARRAY, HEAD + "#SBATCH --array=0-2%1\n")
    kinds.add("live", "echo first version\n" + FAILS_FIRST, script="live")
    kinds.add("pinned", "echo first version\n" + FAILS_FIRST, script="pinned")
    kinds.write("bare", BARE + FAILS_FIRST, HEAD + f"#SBATCH --job-name={kinds.name('bare')}\n")
    everyone = [*kinds.chains, kinds.name("bare")]

    kinds.start()
    kinds.tick()
    bare = (
        "sbatch",
        "--export=NONE",
        "--no-requeue",
        f"--cw-done-mark={DONE}",
        "--cw-name",
        kinds.name("bare"),
        "bare.sh",
    )
    with chdir(kinds.directory), patch.dict(os.environ, {"CHAINWATCH_STATE": str(kinds.state), "SECRET": "told"}):
        os.environ.update(kinds.cluster.env)
        assert main(list(bare)) == 0
    quick = kinds.chains[kinds.name("live")].model_dump(mode="json")["recovery"]
    registered = kinds.record(kinds.name("bare")).settings
    kinds.store.update_chain(kinds.name("bare"), settings={**registered, "recovery": quick})
    for name in kinds.chains:
        kinds.store.update_chain(name, retried_at=SystemClock().now())
    kinds.until(lambda: all(any(a.job.start for a in kinds.attempts(n)) for n in everyone), "every first job began")

    kinds.pause_file.write_text("maintenance till noon\n")
    for kind in ("live", "pinned"):
        kinds.write(kind, "echo second version\n" + FAILS_FIRST)
    (kinds.directory / "go").touch()
    kinds.until(lambda: all(kinds.judged(name) for name in everyone), "every first end is judged", 90)
    held_back = "would resubmit (the site has paused all actions (maintenance till noon)"
    for kind in ("het", "live", "pinned", "bare"):
        name = kinds.name(kind)
        kinds.until(lambda name=name: held_back in kinds.record(name).sentence, f"{name} is held back")  # type: ignore[misc]
    kinds.passes()
    assert [len(kinds.store.intents(name)) for name in everyone] == [1] * len(everyone)
    assert kinds.notices().count("site-paused") == 1

    kinds.pause_file.unlink()
    kinds.until(lambda: all(kinds.is_(name, ChainState.DONE) for name in everyone), "all are done", 120)
    kinds.passes()
    assert "site-paused" not in kinds.notices()
    causes = {name: [a.verdict.cause for a in kinds.attempts(name) if a.verdict] for name in everyone}
    for kind in ("het", "live", "pinned", "bare"):
        assert causes[kinds.name(kind)] == [Cause.NETWORK_FABRIC, Cause.COMPLETED]
        assert len(kinds.store.intents(kinds.name(kind))) == 2

    lane = kinds.attempts(kinds.name("lane"))
    assert [a.job.array_task for a in lane] == ["0", "1", "2"]
    assert len(kinds.store.intents(kinds.name("lane"))) == 1, "its next task is the successor"

    het = [a.job for a in kinds.attempts(kinds.name("het"))]
    assert [job.job_id for job in het] == [job.het_job_id for job in het], "the leader stands for the whole"
    assert len(kinds.jobs(kinds.name("het"))) == 4, "two jobs of two components"

    assert ["first version" in log for log in kinds.logs("live")] == [True, False]
    assert all("first version" in log for log in kinds.logs("pinned"))
    assert any(":edited:" in key for key in kinds.notices() if key.startswith(kinds.name("live")))
    for log in kinds.logs("bare"):
        assert "secret= " in log, "--export=NONE keeps the shell's variables out, in every job of the chain"
        assert f"chain={kinds.name('bare')} resume=/" in log, "and lets chainwatch's own in"
