"""A first configuration that `check` accepts, whatever it was inferred from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
import yaml
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from chainwatch.cli.init import _lasting, init
from chainwatch.config import load
from chainwatch.config.models import Config
from chainwatch.doctor.begin import from_job, from_script, render
from chainwatch.model.job import AttemptId, Job, JobState, Source

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name="run a"
#SBATCH --chdir=/work/a
BASE=/scratch/a
OUT=$BASE/ckpt
srun python train.py --output_dir "$OUT" --max_steps 10000
"""


def loaded(text: str) -> Config:
    return Config.model_validate(yaml.safe_load(text))


def test_a_script_tells_name_directory_checkpoints_and_final_step() -> None:
    chain = loaded(render(from_script(Path("/work/a/job.sh"), SCRIPT))).chains["run-a"]
    assert chain.batch == Path("/work/a/job.sh")
    assert chain.directory == Path("/work/a")
    assert chain.checkpoints is not None
    assert chain.checkpoints.directory == Path("/scratch/a/ckpt")
    assert chain.checkpoints.hand_over == "set_aside"
    assert chain.done.step == 10000
    assert chain.mode == "act"


def test_a_script_that_asks_chainwatch_is_left_to_it() -> None:
    text = SCRIPT + 'srun python x.py --resume "$(chainwatch latest --quick /ckpt/b)"\n'
    checkpoints = loaded(render(from_script(Path("/j.sh"), text))).chains["run-a"].checkpoints
    assert checkpoints is not None
    assert (checkpoints.hand_over, checkpoints.directory) == ("command", Path("/ckpt/b"))


def test_a_running_job_begins_in_observe_with_its_arguments() -> None:
    job = Job(
        AttemptId("c1", 7, datetime(2026, 3, 2, tzinfo=UTC)), "7", JobState.RUNNING, Source.CONTROLLER,
        name="sweep 3", directory="/work/b", command="/work/b/job.sh --lr 1e-4 'yes'",
    )  # fmt: skip
    chain = loaded(render(from_job(job, "#!/bin/sh\nsrun x\n"))).chains["sweep-3"]
    assert chain.mode == "observe"
    assert chain.args == ("--lr", "1e-4", "'yes'")
    assert chain.checkpoints is None


def test_what_was_typed_with_a_job_and_lasts_stands_in_its_configuration() -> None:
    """The kind: a running job's configuration knew the script alone, and the next job went to another partition."""
    job = Job(
        AttemptId("c1", 7, datetime(2026, 3, 2, tzinfo=UTC)), "7", JobState.RUNNING, Source.CONTROLLER,
        name="b", directory="/work/b", command="/work/b/job.sh --lr 3",
        submit_line="sbatch --parsable -p gpu --dependency=afterany:3 --time=2:00:00 --chdir=/work/b job.sh --lr 3",
    )  # fmt: skip
    assert _lasting(job) == ("-p", "gpu", "--time=2:00:00")
    begun = replace(from_job(job, "#!/bin/sh\nsrun x\n"), sbatch=_lasting(job))
    assert loaded(render(begun)).chains["b"].sbatch == ("-p", "gpu", "--time=2:00:00")
    assert _lasting(replace(job, submit_line="sbatch --wrap=x")) == ()


@given(st.text(max_size=80), st.text(max_size=30))
def test_no_script_makes_a_configuration_that_check_refuses(text: str, name: str) -> None:
    clean = "".join(c for c in name if c.isprintable() and c not in "/$~").strip() or "x"
    config = loaded(render(from_script(Path("/w") / clean, f"#!/bin/bash\n{text}\n")))
    assert len(config.chains) == 1


app = typer.Typer()
app.command()(init)


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=answer)


def test_it_writes_once_privately_and_names_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    target = tmp_path / "new" / "c.yaml"
    done = run("--output", str(target), answer=str(tmp_path / "job.sh"))
    assert done.exit_code == 0
    assert f"chainwatch check {target}" in done.output
    assert target.stat().st_mode & 0o077 == 0
    again = run(str(tmp_path / "job.sh"), "--output", str(target))
    assert (again.exit_code, "there already" in again.output) == (1, True)
    assert "chains:" in run(str(tmp_path / "job.sh"), "--output", "-").output


def test_the_job_runs_where_it_was_typed_wherever_the_configuration_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at = tmp_path / "run"
    run_at.mkdir()
    monkeypatch.chdir(run_at)
    (run_at / "job.sh").write_text('#!/bin/bash\nRESUME=$(chainwatch latest "$PWD/ckpt")\nsrun ./train\n')
    assert run("job.sh", "--output", str(tmp_path / "conf" / "c.yaml")).exit_code == 0
    [chain] = load(tmp_path / "conf" / "c.yaml").config.chains.values()
    assert chain.directory == run_at
    assert chain.checkpoints is not None
    assert chain.checkpoints.directory == run_at / "ckpt"
    assert run("job.sh", "--output", "here.yaml").exit_code == 0
    assert "directory: " + str(run_at) not in (run_at / "here.yaml").read_text()


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(str(tmp_path / "none"), "--output", "-")
    assert (done.exit_code, "cannot read" in done.output) == (2, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("4711", "--output", "-")
    assert (done.exit_code, "Slurm does not answer" in done.output) == (4, True)
