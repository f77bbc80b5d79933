"""Each rule finds its gap, and a good script is left in peace."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from chainwatch.cli.lint import lint as command
from chainwatch.doctor.lint import Site, lint
from chainwatch.doctor.script import read

GOOD = """\
#!/bin/bash
#SBATCH --job-name=run-a
#SBATCH --nodes=4 --ntasks-per-node=8   # all of them
#SBATCH --time=1-00:00:00
#SBATCH --signal=USR1@300
#SBATCH --open-mode=append

set -euo pipefail
module load cuda
export PYTHONUNBUFFERED=1
srun --kill-on-bad-exit=1 \\
    python train.py --resume "$(chainwatch latest /ckpt)" | tee -a train.log
"""


def codes(text: str, site: Site | None = None) -> set[str]:
    return {finding.code for finding in lint(text, site)}


def script(body: str, options: str = "") -> str:
    head = "#!/bin/bash\n#SBATCH --signal=USR1@300 --open-mode=append\n"
    return head + "".join(f"#SBATCH {o}\n" for o in options.split("|") if o) + body


def test_a_good_script_is_left_in_peace() -> None:
    assert lint(GOOD) == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("late_sbatch", script("exec srun python -u t.py\n#SBATCH --time=1\n")),
        ("no_signal", "#!/bin/bash\n#SBATCH --open-mode=append\nsrun python -u t.py\n"),
        ("signal_to_shell", "#!/bin/bash\n#SBATCH --signal=B:USR1@60 --open-mode=append\nsrun python -u t.py\n"),
        ("trap_waits", script("trap 'kill -TERM $pid' TERM\nsrun python -u t.py\n")),
        ("not_a_step", script("python -u train.py\n")),
        ("not_a_step", script("torchrun --nproc-per-node 8 train.py\n")),
        ("log_truncated", "#!/bin/bash\n#SBATCH --signal=USR1@60\nexec srun python -u t.py\n"),
        ("ranks_left_behind", script("srun python -u t.py\n", "--nodes=2")),
        ("ranks_left_behind", script("srun -n 8 python -u t.py\n")),
        ("buffered", script("srun python train.py\n")),
        ("requeue", script("exec srun python -u t.py\n", "--requeue")),
        ("resubmits_itself", script("srun python -u t.py || sbatch $0\n")),
        ("resubmits_itself", script("srun python -u t.py\nscontrol requeue $SLURM_JOB_ID\n")),
        ("nccl_renamed", script("export NCCL_ASYNC_ERROR_HANDLING=1\n")),
        ("nccl_async_off", script("TORCH_NCCL_ASYNC_ERROR_HANDLING=0 srun python -u t.py\n")),
        ("newest_by_number", script("CKPT=$(ls -d ckpt/global_step* | sort -V | tail -n 1)\n")),
        ("newest_by_number", script("last=$(ls -t checkpoints | head -1)\n")),
        ("newest_by_number", script('R=$(find out -name "epoch=*.ckpt" | sort -n | tail -1)\n')),
        ("exit_code_lost", script("srun python -u t.py | tee log\n")),
        ("exit_code_lost", script("srun python -u t.py || true\n")),
        ("exit_code_lost", script("srun python -u t.py &\nwait\n")),
    ],
)
def test_each_gap_is_found_once_with_why_and_how(code: str, text: str) -> None:
    found = [finding for finding in lint(text) if finding.code == code]
    assert len(found) == 1
    assert found[0].what
    assert found[0].why
    assert found[0].mend
    assert found[0].line is None or found[0].line <= len(text.splitlines())


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "signal_to_shell",
            "#SBATCH --signal=B:USR1@60\ntrap 'kill -USR1 $pid' USR1\nsrun python t.py &\npid=$!\nwait $pid\n",
        ),
        ("signal_to_shell", "#SBATCH --signal=B:USR1@60\nexec python t.py\n"),
        ("trap_waits", script("trap 'kill -TERM $pid' TERM\nsrun python t.py &\npid=$!\nwait $pid\n")),
        ("trap_waits", script("trap 'rm -f lock' EXIT\nsrun python t.py\n")),
        ("log_truncated", "#SBATCH --no-requeue\nsrun python t.py\n"),
        ("ranks_left_behind", script("srun -n1 python t.py\n")),
        ("ranks_left_behind", script("srun -K python t.py\n", "--nodes=2")),
        ("ranks_left_behind", script("export SLURM_KILL_BAD_EXIT=1\nsrun python t.py\n", "--nodes=2")),
        ("buffered", script("srun python -u t.py\n")),
        ("buffered", script("srun env PYTHONUNBUFFERED=1 python t.py\n")),
        ("buffered", script("python -c 'print(1)'\n")),
        ("newest_by_number", script("tail -n 100 log | head\nls *.py | tail -1\n")),
        ("newest_by_number", script("# ls ckpt | sort -V | tail -1\n")),
        ("exit_code_lost", script("set -o pipefail\nsrun python -u t.py | tee log\n")),
        ("exit_code_lost", script("squeue | grep x || true\n")),
        ("late_sbatch", script("cat <<EOF > other.sh\n#SBATCH --time=1\nEOF\n")),
        ("not_a_step", script("pip install -r requirements.txt\npython -m venv .venv\n")),
    ],
)
def test_what_is_no_gap_is_not_reported(code: str, text: str) -> None:
    assert code not in codes(text)


def test_rules_stay_silent_about_what_the_site_sets() -> None:
    text = script("srun python -u t.py\n", "--nodes=2")
    assert "ranks_left_behind" not in codes(text, Site(kill_on_bad_exit=True))
    assert "log_truncated" not in codes("#!/bin/bash\nsrun python -u t.py\n", Site(requeue=False))


def test_a_warning_that_comes_later_than_preemption_allows_is_named() -> None:
    assert "signal_after_grace" in codes(GOOD, Site(grace=timedelta(seconds=60)))
    assert "signal_after_grace" not in codes(GOOD, Site(grace=timedelta(minutes=10)))


@pytest.mark.parametrize(("every", "said"), [("3h", "more often"), ("10s", "less often"), ("13m", None)])
def test_the_save_interval_is_weighed_against_the_measured_failures(every: str, said: str | None) -> None:
    from chainwatch.model.durations import parse_duration

    site = Site(between_failures=timedelta(hours=6), save_takes=timedelta(seconds=20), save_every=parse_duration(every))
    found = [finding for finding in lint(GOOD, site) if finding.code == "save_interval"]
    assert (found[0].mend if found else None) == (f"Save {said}." if said else None)


def test_options_are_read_as_slurm_reads_them() -> None:
    options = read(
        "#!/bin/sh\n#SBATCH -N 4 -n32 --time 10:00 # comment --qos=x\n#SBATCH -J'a b'\n#SBATCH --time=20:00\ntrue\n"
    ).options
    assert options == {"nodes": "4", "ntasks": "32", "time": "20:00", "job-name": "a b"}


@given(st.text(alphabet=st.sampled_from(list("#SBATCH-='\"\\\n |&;()<>$ srunpythoexc.py:@0")), max_size=200))
def test_no_text_makes_it_fail(text: str) -> None:
    lint(text)
    lint("#!/bin/bash\n" + text)


app = typer.Typer()
app.command()(command)


def test_the_command_says_where_and_how_and_exits_by_problems(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(script("srun python -u t.py | tee log\n"))
    done = CliRunner().invoke(app, [str(file)])
    assert done.exit_code == 1
    assert f"{file}:3: problem" in done.output
    assert "mend: Add `set -o pipefail`." in done.output
    assert '"code": "exit_code_lost"' in CliRunner().invoke(app, [str(file), "--json"]).output
    file.write_text(GOOD)
    assert CliRunner().invoke(app, [str(file)]).exit_code == 0
    missing = CliRunner().invoke(app, [str(tmp_path / "none")])
    assert (missing.exit_code, "cannot read" in missing.output) == (2, True)
