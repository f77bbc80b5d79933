"""The job's environment: nothing of the daemon in it, everything of the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainwatch.slurm.environment import (
    Account,
    EnvironmentUnusable,
    clean,
    from_file,
    job_environment,
    of_login_shell,
    own_virtual_environment,
)

USERS = {
    "HOME": "/home/ann", "USER": "ann", "PATH": "/home/ann/bin:/opt/cw/bin:/usr/bin", "LANG": "de_DE.UTF-8",
    "HF_HOME": "/scratch/hf", "NCCL_DEBUG": "INFO", "PYTHONPATH": "/home/ann/lib", "TZ": "Europe/Berlin",
    "BASH_FUNC_module%%": "() {  eval x\n}", "CONDA_PREFIX": "/home/ann/conda",
}  # fmt: skip
DAEMONS = {
    "SBATCH_QOS": "x", "SLURM_CLUSTERS": "y", "SLURM_TIME_FORMAT": "%s", "SQUEUE_FORMAT": "%i", "SLURMD_NODENAME": "n1",
    "INVOCATION_ID": "1", "NOTIFY_SOCKET": "/run/x", "JOURNAL_STREAM": "8:1", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1",
    "STATE_DIRECTORY": "/s", "SYSTEMD_EXEC_PID": "4", "PYTHONHOME": "/opt/cw", "_": "/opt/cw/bin/chainwatch",
    "SHLVL": "1", "PWD": "/", "OLDPWD": "/x", "CHAINWATCH_STATE": "/s", "_OLD_VIRTUAL_PATH": "/usr/bin",
    "PYTEST_CURRENT_TEST": "x", "PMIX_RANK": "0", "MEMORY_PRESSURE_WATCH": "/x",
}  # fmt: skip


def test_what_is_the_daemons_is_taken_away_and_what_is_the_users_is_kept() -> None:
    got = dict(job_environment({**USERS, **DAEMONS}))
    assert got == USERS


def test_the_daemons_own_virtual_environment_is_left() -> None:
    captured = {**USERS, "VIRTUAL_ENV": "/opt/cw", "VIRTUAL_ENV_PROMPT": "(cw)"}
    got = dict(job_environment(captured, virtual_environment="/opt/cw"))
    assert got["PATH"] == "/home/ann/bin:/usr/bin"
    assert not {"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"} & set(got)


def test_the_users_own_virtual_environment_is_kept() -> None:
    captured = {**USERS, "VIRTUAL_ENV": "/home/ann/venv", "PATH": "/home/ann/venv/bin:/opt/cw/bin:/usr/bin"}
    got = dict(job_environment(captured, virtual_environment="/opt/cw"))
    assert got["VIRTUAL_ENV"] == "/home/ann/venv"
    assert got["PATH"] == "/home/ann/venv/bin:/usr/bin"


def test_where_the_cluster_is_stays_known_and_the_daemons_word_wins() -> None:
    assert dict(job_environment({"SLURM_CONF": "/a"}))["SLURM_CONF"] == "/a"
    assert dict(job_environment({"SLURM_CONF": "/a"}, conf="/b"))["SLURM_CONF"] == "/b"


def test_a_capture_inside_a_job_does_not_hand_its_gpus_on() -> None:
    inside = {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert job_environment(inside) == ()
    assert dict(job_environment({"CUDA_VISIBLE_DEVICES": "0"})) == {"CUDA_VISIBLE_DEVICES": "0"}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_no_capture_makes_an_environment_that_cannot_be_handed_to_a_process(captured: dict[str, str]) -> None:
    for name, value in job_environment(captured):
        assert name
        assert "=" not in name
        assert "\0" not in name + value
        assert not name.startswith(("SBATCH_", "SLURM_")) or name == "SLURM_CONF"


def test_making_it_twice_changes_nothing() -> None:
    once = job_environment({**USERS, **DAEMONS}, conf="/b", virtual_environment="/opt/cw")
    assert job_environment(dict(once), conf="/b", virtual_environment="/opt/cw") == once


def test_a_file_of_variables() -> None:
    text = "# mine\n\nA=1\nexport B='two words'\nC=\"x=y\"\nD=\n"
    assert from_file(text) == {"A": "1", "B": "two words", "C": "x=y", "D": ""}
    with pytest.raises(EnvironmentUnusable, match="line 2"):
        from_file("A=1\nnonsense\n")


def test_a_clean_one_is_enough_to_run_a_shell() -> None:
    got = clean(Account("ann", "/home/ann"))
    assert got["HOME"] == "/home/ann"
    assert "/usr/bin" in got["PATH"]


def test_a_login_shell_gives_what_its_profile_exports_whatever_it_prints(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("echo Welcome; export FROM_PROFILE='a\nb'; echo 'noise=1'\n")
    account = Account("ann", str(tmp_path), "/bin/bash")
    os.environ["LEAKS_FROM_THE_DAEMON"] = "1"
    try:
        got = of_login_shell(account)
    finally:
        del os.environ["LEAKS_FROM_THE_DAEMON"]
    assert got["FROM_PROFILE"] == "a\nb"
    assert not {"LEAKS_FROM_THE_DAEMON", "noise"} & set(got)


def test_a_login_shell_that_hangs_or_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("sleep 60\n")
    with pytest.raises(EnvironmentUnusable, match="no answer"):
        of_login_shell(Account("ann", str(tmp_path), "/bin/bash"), deadline=0.5)
    (tmp_path / ".profile").write_text("exit 3\n")
    with pytest.raises(EnvironmentUnusable, match="gave no environment"):
        of_login_shell(Account("ann", str(tmp_path), "/bin/bash"))
    with pytest.raises(EnvironmentUnusable):
        of_login_shell(Account("ann", str(tmp_path), str(tmp_path / "no-shell")))


def test_the_own_virtual_environment_is_known() -> None:
    assert own_virtual_environment() == (sys.prefix if sys.prefix != sys.base_prefix else None)
