"""The one file for other Pythons: it runs with the oldest one that is to be had, isolated, and is the same each time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from chainwatch.job.bundle import write_bundle
from tests.job.test_exec import checkpoint


def test_the_bundle_runs_with_an_old_python_and_nothing_installed(
    old_python: str, bundle: Path, tmp_path: Path
) -> None:
    good = checkpoint(tmp_path / "run", 10)
    checkpoint(tmp_path / "run", 20, cut=True)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [old_python, "-I", "-S", str(bundle), *words],
            cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "5"}, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    done = run("exec", "--checkpoints", "run", "--", "sh", "-c", "echo $CHAINWATCH_RESUME_FROM; kill -9 $$")
    assert (done.returncode, done.stdout.strip(), "Traceback" in done.stderr) == (137, str(good), False)
    assert run("latest", "run").stdout.strip() == str(good)
    assert run("verify", "run").returncode == 0
    assert run("status").returncode == 2


def test_the_same_sources_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    size = write_bundle(str(tmp_path / "again.pyz"))
    assert (tmp_path / "again.pyz").read_bytes() == bundle.read_bytes()
    assert size < 1_000_000


def test_the_bundle_runs_where_only_a_container_path_is_seen(old_python: str, bundle: Path, tmp_path: Path) -> None:
    """A mount namespace as apptainer makes one: the run lies elsewhere inside, and what is handed over is there."""
    run = tmp_path / "scratch"
    good = checkpoint(run, 10)
    inside = tmp_path / "inside"
    inside.mkdir()
    mount = ["unshare", "-m", "sh", "-c", f'mount --bind {run} {inside} && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
        import pytest

        pytest.skip("NO MOUNT NAMESPACE TESTED: this user may not make one")
    words = [
        old_python, "-I", str(bundle), "exec", "--checkpoints", str(run), "--map", f"{run}={inside}", "--",
        *mount, "sh", "-c", 'echo "$CHAINWATCH_RESUME_FROM" && head -c 2 "$CHAINWATCH_RESUME_FROM"',
    ]  # fmt: skip
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"{inside / good.name}\nPK", done.stderr
