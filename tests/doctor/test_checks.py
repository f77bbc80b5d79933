"""Each check finds its trouble on a machine that has it, and is quiet on one that has not."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chainwatch.config.models import Config
from chainwatch.doctor import Finding, Level, Patient, examine
from chainwatch.doctor.checks import CHECKS
from chainwatch.doctor.machine import login_nodes
from chainwatch.slurm import NoInformation
from chainwatch.slurm.process import Reply
from chainwatch.store import open_store

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
WELL = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStoreFlags": "job_comment,job_script",
    "ClusterName": "c1",
    "JobFileAppend": "0",
    "JobRequeue": "0",
    "KillOnBadExit": "1",
    "MessageTimeout": "10 sec",
    "MinJobAge": "300 sec",
    "PreemptMode": "REQUEUE",
    "SLURM_VERSION": "24.11.5",
}
SCRIPT = "#!/bin/bash\n#SBATCH --signal=USR1@60 --open-mode=append\nset -o pipefail\nsrun python -u t.py\n"


class Slurm:
    """Answers of a cluster; what is None gives no information."""

    def __init__(self, **config: str) -> None:
        rows = "".join(f"{key:<24}= {value}\n" for key, value in {**WELL, **config}.items())
        self.answers: dict[str, str | None] = {
            "scontrol": f"Configuration data as of {int(NOW.timestamp())}\n{rows}",
            "sacct": "",
            "qos": "normal|cluster|00:00:00\nextra|requeue|00:02:00\n",
            "assoc": "acct||500\n",
            "squeue": "",
            "partition": "PartitionName=gpu Default=YES GraceTime=30 PreemptMode=CANCEL\nPartitionName=cpu GraceTime=0\n",
        }

    def __call__(self, program: str, *arguments: str) -> Reply:
        key = next((word for word in reversed(arguments) if word in self.answers), program)
        text = self.answers[key]
        if text is None:
            raise NoInformation(f"{program} gave no answer")
        return Reply((program,), 0, text.encode(), "", 0.1)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "job.sh").write_text(SCRIPT)
    open_store(tmp_path / "state").close()
    return Config.model_validate(
        {
            "state": str(tmp_path / "state"),
            "chains": {"run-a": {"batch": str(tmp_path / "job.sh"), "checkpoints": str(tmp_path / "ckpt")}},
        }
    )


def found(patient: Patient) -> dict[str, Finding]:
    return {finding.code: finding for finding in examine(patient)}


def patient(slurm: Slurm, config: Config | None, root: Path | None = None) -> Patient:
    return Patient(slurm, NOW, "alice", Path("/home/alice"), config, root=root or Path("/"))


def test_no_check_breaks_and_a_healthy_cluster_has_no_problem(config: Config) -> None:
    findings = found(patient(Slurm(), config))
    assert "Slurm 24.11.5 on cluster c1" in findings["version"].what
    assert "partition gpu: cancel, grace 30s" in findings["preemption"].what
    broken = [f.what for f in findings.values() if "broke with" in f.what]
    assert broken == []
    trouble = {f.code for f in findings.values() if f.level is Level.PROBLEM}
    assert trouble <= {"no_channel", "tools", "space", "kill_at_logout"}


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("version", {"SLURM_VERSION": "19.05.2"}),
        ("no_accounting", {"AccountingStorageType": "(null)"}),
        ("no_accounting", {"AccountingStorageType": "accounting_storage/none"}),
        ("store_flags", {"AccountingStoreFlags": "(null)"}),
        ("requeue_truncates", {"JobRequeue": "1"}),
        ("kill_on_bad_exit", {"KillOnBadExit": "0"}),
        ("min_job_age", {"MinJobAge": "10 sec"}),
        ("settle", {"MessageTimeout": "100 sec"}),
    ],
)
def test_a_setting_that_gets_in_the_way_is_found(config: Config, code: str, changes: dict[str, str]) -> None:
    finding = found(patient(Slurm(**changes), config))[code]
    assert finding.level in {Level.PROBLEM, Level.ADVICE}
    if code != "version":
        assert code not in found(patient(Slurm(), config))
        assert finding.why
        assert finding.mend


def test_a_site_without_accounting_is_told_what_is_weaker_and_not_asked(config: Config) -> None:
    slurm = Slurm()
    slurm.answers["sacct"] = None
    assert found(patient(slurm, config))["accounting"].level is Level.PROBLEM
    declared = config.model_copy(update={"slurm": config.slurm.model_copy(update={"accounting": False})})
    findings = found(patient(slurm, declared))
    assert "accounting" not in findings
    assert "only while the controller remembers the job" in findings["no_accounting"].why


def test_without_accounting_a_short_memory_of_the_controller_is_a_problem_sooner(config: Config) -> None:
    kept = Slurm(MinJobAge="100 sec")
    bare = Slurm(MinJobAge="100 sec", AccountingStorageType="(null)")
    assert found(patient(kept, config))["min_job_age"].level is Level.ADVICE
    assert found(patient(bare, config))["min_job_age"].level is Level.PROBLEM


def test_an_older_release_is_told_what_it_tells_less_of(config: Config) -> None:
    older = found(patient(Slurm(SLURM_VERSION="22.05.8"), config))["release_weaker"]
    assert "recorded as FAILED or COMPLETED" in older.why
    assert "takes 128 off exit codes" in older.why
    assert "release_weaker" not in found(patient(Slurm(SLURM_VERSION="26.05.5"), config))


def test_a_silent_controller_is_one_problem_and_nothing_is_concluded_from_it(config: Config) -> None:
    slurm = Slurm()
    slurm.answers = dict.fromkeys(slurm.answers)
    findings = found(patient(slurm, config))
    assert findings["controller"].level is Level.PROBLEM
    assert "SLURM_CONF" in findings["controller"].mend
    assert not set(findings) & {"preemption", "min_job_age", "max_submit_jobs", "store_flags", "version"}


def test_a_skewed_clock_is_measured(config: Config) -> None:
    late = patient(Slurm(), config)
    late.now = NOW + timedelta(minutes=3)
    assert "differ by 180 s" in found(late)["clock_skew"].what


def test_limits_are_weighed_against_the_chains(config: Config) -> None:
    slurm = Slurm()
    slurm.answers["assoc"] = "acct||1\n"
    assert "allows 1 submitted jobs" in found(patient(slurm, config))["max_submit_jobs"].what
    slurm.answers["assoc"] = "acct||500\n"
    slurm.answers["format=Name,MaxSubmitPU"] = "normal|\nextra|1\n"
    assert "max_submit_jobs" not in found(patient(slurm, config)), "no chain uses that QOS"
    full = config.model_dump(mode="json", by_alias=True)
    full["chains"]["run-a"]["sbatch"] = ["--qos=extra"]
    assert "QOS extra allows 1" in found(patient(slurm, Config.model_validate(full)))["max_submit_jobs"].what
    slurm.answers["assoc"] = None
    assert found(patient(slurm, config))["limits"].level is Level.UNKNOWN


def test_a_preemption_without_grace_is_advice(config: Config) -> None:
    slurm = Slurm()
    slurm.answers["qos"] = "normal|cluster|00:00:00\n"
    assert "partition gpu: cancel, grace 30s" in found(patient(slurm, config))["preemption"].what
    slurm.answers["partition"] = None
    full = config.model_dump(mode="json", by_alias=True)
    full["chains"]["run-a"]["sbatch"] = ["-q", "normal"]
    assert "QOS normal has no GraceTime" in found(patient(slurm, Config.model_validate(full)))["no_grace"].what


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--qos=extra"], "QOS extra: requeue, grace 2m"),
        (["--qos=normal", "-p", "cpu"], "partition cpu: no grace"),
        (["--partition=gpu,cpu"], "partition gpu: cancel, grace 30s"),
        ([], "partition gpu: cancel, grace 30s"),
    ],
)
def test_preemption_is_told_of_the_qos_and_partition_that_a_chain_uses(
    config: Config, options: list[str], told: str
) -> None:
    full = config.model_dump(mode="json", by_alias=True)
    full["chains"]["run-a"]["sbatch"] = options
    findings = found(patient(Slurm(), Config.model_validate(full)))
    assert told in findings["preemption"].what
    assert ("no_grace" in findings) is ("no grace" in told)


def test_the_machine_is_examined(config: Config, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "etc/systemd").mkdir(parents=True)
    (root / "etc/systemd/logind.conf").write_text("[Login]\nKillUserProcesses=yes\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("1 0 0:5 / / rw - nfs4 server:/ rw,sec=krb5p\n")
    findings = found(patient(Slurm(), config, root))
    assert findings["lingering"].mend.startswith("loginctl enable-linger")
    assert findings["kill_at_logout"].level is Level.PROBLEM
    assert "nfs4" in findings["state_on_network"].what
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/alice").touch()
    assert "lingering" not in found(patient(Slurm(), config, root))


@pytest.mark.parametrize(
    ("host", "answer", "told"),
    [
        (
            "login3.hpc.example.org",
            "10.0.0.1 STREAM login\n10.0.0.2 STREAM\n10.0.0.1 DGRAM\n",
            "login leads to 2 machines",
        ),
        (
            "gate-02",
            "10.0.0.1 STREAM gate\n10.0.0.2 STREAM\n",
            "gate leads to 2 machines, of which this one is gate-02",
        ),
        ("login3", "10.0.0.1 STREAM login\n", "login3 looks like one of several login nodes"),
        ("hpclogin1", "", "looks like one of several"),
        ("node7", "10.0.0.7 STREAM node\n", None),
        ("submit", "10.0.0.1 STREAM\n10.0.0.2 STREAM\n", None),
    ],
)
def test_login_nodes_that_rotate_are_told(host: str, answer: str, told: str | None) -> None:
    one = patient(Slurm(), None)
    one.host, one.run = host, lambda *words: answer if words[0] == "getent" else None
    found = [finding.what for finding in login_nodes(one)]
    assert (told in found[0]) if told else found == []


def test_scripts_and_channels_are_examined(config: Config, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT + "srun python -u t.py || true\n")
    with socket.create_server(("127.0.0.1", 0)) as up:
        for name, port in (("up", up.getsockname()[1]), ("down", 1)):
            file = tmp_path / name
            file.write_text(f"http://127.0.0.1:{port}/verysecret")
            file.chmod(0o600)
        (tmp_path / "open").write_text("http://127.0.0.1/verysecret")
        (tmp_path / "open").chmod(0o644)
        channels = {n: {"type": "slack", "url_file": str(tmp_path / n)} for n in ("up", "down", "open")}
        full = config.model_dump(mode="json", by_alias=True) | {"alerts": {"channels": channels}}
        findings = list(examine(patient(Slurm(), Config.model_validate(full))))
    told = "\n".join(f"{f.level} {f.what} {f.mend}" for f in findings)
    assert "exit_code_lost" in told
    assert "(alert channel up) can be reached" in told
    assert "problem the host of alert channel down cannot be reached" in told
    assert "chmod 600" in told
    assert "verysecret" not in told


def test_the_sites_word_is_told(config: Config, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/chainwatch").mkdir(parents=True)
    (root / "etc/chainwatch/PAUSE").write_text("maintenance")
    (root / "etc/chainwatch/site.yaml").write_text("poll_at_least: 5m\n")
    one = patient(Slurm(), config, root)
    one.site_owner = os.geteuid()
    findings = found(one)
    assert "maintenance" in findings["site_pause"].what
    assert "poll is 5m" in findings["site"].what
    (root / "etc/chainwatch/site.yaml").write_text("poll_at_least: soon\n")
    assert found(one)["site"].level is Level.PROBLEM


def test_other_instances_are_noticed_by_their_jobs(config: Config) -> None:
    slurm = Slurm()
    slurm.answers["squeue"] = "chainwatch=0123abcd/run-a/0123456789abcdef\n"
    assert "other chainwatch state directories (1)" in found(patient(slurm, config))["other_instances"].what


def test_a_check_that_breaks_is_said_and_the_others_go_on() -> None:
    def broken(_: Patient):  # type: ignore[no-untyped-def]
        yield Finding("first", Level.OK, "fine")
        raise RuntimeError("boom")

    findings = list(examine(patient(Slurm(), None), (broken, *CHECKS)))
    assert "broke with RuntimeError: boom" in findings[1].what
    assert len(findings) > 5
