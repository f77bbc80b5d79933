"""What can be told before anything is submitted."""

from __future__ import annotations

import pytest

from chainwatch.actions.beforehand import (
    missing_log_directories,
    parallel,
    prints_the_mark,
    submitted_with,
    without_logs,
)
from chainwatch.config.models import Chain

THERE = {"/home", "/home/ada", "/home/ada/logs", "/home/ada/run.sh", "/home/ada/sub"}


def missing(head: str, *options: str, directory: str = "/home/ada") -> tuple[str, ...]:
    chain = Chain.model_validate({"batch": "/home/ada/run.sh", "sbatch": list(options)})
    return missing_log_directories(chain, f"#!/bin/sh\n{head}\n", directory, THERE.__contains__)


@pytest.mark.parametrize(
    ("head", "options", "said"),
    [
        ("", (), ()),
        ("#SBATCH -o logs/%j.out", (), ()),
        ("#SBATCH -o out/%j.out", (), ("/home/ada/out",)),
        ("#SBATCH -o out/%j.out", ("-o", "logs/x"), ()),
        ("#SBATCH -o out/x.out\n#SBATCH -e err/x.err", (), ("/home/ada/out", "/home/ada/err")),
        ("#SBATCH -o out/x.out\n#SBATCH -e out/x.err", (), ("/home/ada/out",)),
        ("#SBATCH -D sub\n#SBATCH -o logs/%j.out", (), ("/home/ada/sub/logs",)),
        ("#SBATCH -o %x.out", ("--job-name=a/b",), ()),
        ("#SBATCH -J sub\n#SBATCH -o %x/%j.out", (), ()),
        ("#SBATCH -o %x/%j.out", (), ()),
        ("#SBATCH -o logs/%j/out", (), ("/home/ada/logs/%j",)),
        ("#SBATCH -o logs/%N/out", (), ()),
        ("#SBATCH -o out/%u/x", (), ("/home/ada/out",)),
        ("", ("-o", r"o\ut/%j"), ("/home/ada/out",)),
        ("#SBATCH -o /home/eve/x.out", (), ("/home/eve",)),
        ("#SBATCH -o /local/disk/x.out", (), ()),
    ],
)
def test_directories_of_logs_that_are_not_there_are_known_beforehand(
    head: str, options: tuple[str, ...], said: tuple[str, ...]
) -> None:
    assert missing(head, *options) == said


def test_it_is_said_with_the_command_that_makes_them() -> None:
    assert without_logs(["/a b", "/c"]).endswith("mkdir -p '/a b' /c")


def test_the_command_line_counts_before_the_script_and_a_broken_one_is_left_to_sbatch() -> None:
    text = "#!/bin/sh\n#SBATCH --array=0-3\n"
    chain = Chain.model_validate({"batch": "/x", "sbatch": ["--array=0-3%1"]})
    assert submitted_with(chain, text, "array") == "0-3%1"
    assert submitted_with(chain, text, "array", ["-a", "7"]) == "7"
    broken = Chain.model_validate({"batch": "/x", "sbatch": ["--time"]})
    assert submitted_with(broken, text, "array") == "0-3"
    assert parallel("0-3%1") == parallel("7") == parallel(None) == ""
    assert parallel("0-3")


@pytest.mark.parametrize(
    ("script", "warned"),
    [
        ("srun train\necho training finished", True),
        ("srun train; echo 'training finished'", True),
        ('srun train\nprintf "%s\\n" "training finished"', True),
        ("srun train\necho -e training finished > /dev/null", True),
        ("srun train && echo training finished", False),
        ("srun train || exit 1; echo training finished", False),
        ("if srun train; then echo training finished; fi", False),
        ("if srun train\nthen\n  echo training finished\nfi", False),
        ("set -euo pipefail\nsrun train\necho training finished", False),
        ("set -o errexit\nsrun train\necho training finished", False),
        ("srun train\necho bye", False),
        ("srun train --until 'training finished'", False),
    ],
)
def test_a_script_that_prints_the_mark_whatever_its_program_returned_is_told_of(script: str, warned: bool) -> None:
    chain = Chain.model_validate({"batch": "/home/ada/run.sh", "done": {"mark": "training finished$"}})
    said = prints_the_mark(chain, f"#!/bin/bash\n{script}\n")
    assert bool(said) is warned, said
    assert not prints_the_mark(Chain.model_validate({"batch": "/x"}), f"#!/bin/bash\n{script}\n")
    assert not prints_the_mark(chain, f"#!/bin/bash -le\n{script}\n")
