"""What can be told before anything is submitted."""

from __future__ import annotations

import pytest

from chainwatch.actions.beforehand import missing_log_directories, parallel, submitted_with, without_logs
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
