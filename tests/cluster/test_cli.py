"""The commands on a real Slurm, as people and scripts type them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.cluster import PrivateCluster

from tests.cluster.service import WHEN_TOLD, Service


@pytest.fixture
def service(cluster: PrivateCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, tmp_path)
    made.behave("echo args: $*; echo task: $SLURM_ARRAY_TASK_ID; echo training finished")
    yield made
    made.close()


def once(service: Service) -> None:
    done = service.run("run", "empty.yaml", "--once")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def empty(service: Service) -> Service:
    """Without a configured chain: commands make them."""
    text = f"state: {service.state}\npoll: 1s\nchains: {{}}\n"
    (service.directory / "empty.yaml").write_text(text)
    return service


def chains(service: Service) -> dict[str, dict[str, object]]:
    done = service.run("status", "--json")
    return {c["chain"]: c for c in json.loads(done.stdout)}


def until_done(service: Service, *names: str) -> None:
    def all_done() -> bool:
        once(service)
        known = chains(service)
        return all(known[n]["state"] == "done" for n in names)

    service.until(all_done, f"{', '.join(names)} are done", 90)


def test_sbatch_says_what_sbatch_says_and_registers_the_chain(empty: Service) -> None:
    name = empty.name
    options = (f"--job-name={name}", "--time=5", "--cw-done-mark=training finished")
    said = empty.run("sbatch", *options, "train.sh", "--lr", "1e-4")
    assert said.returncode == 0, said.stderr
    assert re.fullmatch(r"Submitted batch job \d+\n", said.stdout)
    assert said.stderr == (
        f"chainwatch: no daemon runs for {empty.state}: nobody looks after {name} until `chainwatch run` is started there\n"
    )
    parsable = empty.run("sbatch", "--parsable", *options, "train.sh", "--lr", "2e-4")
    assert re.fullmatch(r"\d+\n", parsable.stdout)
    known = chains(empty)
    assert sorted(known) == [name, f"{name}-2"], "two runs of one script are two chains"
    assert {c["mode"] for c in known.values()} == {"act"}
    until_done(empty, *known)
    attended = empty.run("sbatch", *options, "train.sh")
    assert (attended.returncode, attended.stderr) == (0, ""), "a timer makes the passes"
    logs = "".join(p.read_text() for p in empty.directory.glob("*.out"))
    assert "args: --lr 1e-4" in logs
    assert "args: --lr 2e-4" in logs
    assert len(empty.jobs()) == 3


def test_a_loop_of_runs_makes_as_many_chains_and_none_takes_anothers_job(empty: Service) -> None:
    name = empty.name
    for seed in range(4):
        assert empty.run("sbatch", f"--job-name={name}", "--time=5", "train.sh", str(seed)).returncode == 0
    known = sorted(chains(empty))
    assert len(known) == 4
    until_done(empty, *known)
    ids = [[a["job_id"] for a in empty.json("history", chain)["attempts"]] for chain in known]
    assert all(len(i) == 1 for i in ids)
    assert sorted((str(i[0]) for i in ids), key=int) == empty.jobs()


def test_an_array_of_one_at_a_time_is_one_chain_and_any_other_one_chain_a_task(empty: Service) -> None:
    name = empty.name
    one = empty.run("sbatch", f"--job-name={name}", "--time=5", "--array=0-1%1", "--cw-name=serial", "train.sh")
    many = empty.run("sbatch", f"--job-name={name}", "--time=5", "--array=3,5", "--cw-name=sweep", "train.sh")
    assert (one.returncode, many.returncode) == (0, 0), one.stderr + many.stderr
    assert sorted(chains(empty)) == ["serial", "sweep.3", "sweep.5"]
    until_done(empty, "sweep.3", "sweep.5")
    for task in ("3", "5"):
        told = empty.json("history", f"sweep.{task}")
        [attempt] = told["attempts"]
        assert attempt["job"].endswith(f"_{task}"), told
        assert attempt["ours"]
    until_done(empty, "serial")


def test_wrapped_and_piped_scripts_are_kept_so_that_they_can_be_submitted_again(empty: Service) -> None:
    wrapped = empty.run("sbatch", "--time=5", "--wrap=echo wrapped; echo training finished")
    assert wrapped.returncode == 0, wrapped.stderr
    assert list(chains(empty)) == ["wrap"]
    [kept] = (empty.state / "scripts").iterdir()
    assert kept.read_text().endswith("echo wrapped; echo training finished\n")
    until_done(empty, "wrap")
    refused = empty.run("sbatch", "--wrap=true", "train.sh")
    assert refused.returncode == 1


def test_a_refused_job_is_said_as_sbatch_says_it_and_no_chain_is_left(empty: Service) -> None:
    refused = empty.run("sbatch", "--qos=no-such-qos", "train.sh")
    assert refused.returncode == 1
    assert refused.stderr.startswith("sbatch: error: ")
    assert refused.stdout == ""
    assert chains(empty) == {}


@pytest.mark.slow(60)
def test_a_job_of_somebody_is_adopted_watched_and_switched_on(empty: Service) -> None:
    name, cluster = empty.name, empty.cluster
    script = empty.directory / "train.sh"
    empty.behave(WHEN_TOLD)
    job = cluster.sbatch(script, f"--job-name={name}", "--time=5", args=("--lr", "3"), cwd=empty.directory)
    cluster.wait(job, "RUNNING")
    adopted = empty.run("adopt", str(job), "--done-mark", "training finished")
    assert adopted.returncode == 0, adopted.stderr
    assert f"chainwatch mode {name} act" in adopted.stdout
    assert chains(empty)[name]["mode"] == "observe"
    again = empty.run("adopt", str(job), "--name=other")
    assert (again.returncode, len(again.stderr.splitlines())) == (3, 1)
    assert f"belongs to the chain {name}" in again.stderr
    once(empty)
    [attempt] = empty.json("history", name)["attempts"]
    assert (attempt["job_id"], attempt["ours"]) == (job, False)
    assert empty.run("mode", name, "act").returncode == 0
    (empty.directory / "fail").touch()
    cluster.wait(job, "FAILED")
    empty.behave("echo args: $*; echo training finished")
    until_done(empty, name)
    first, second = empty.json("history", name)["attempts"]
    assert (first["cause"], second["ours"]) == ("network_fabric", True)
    log = cluster.jobs / f"{second['job_id']}.log"
    assert "args: --lr 3" in log.read_text(), "the arguments and the options of the job by hand"


def test_wishes_are_written_and_read_back(service: Service) -> None:
    name = service.name
    assert service.run("run", "conf.yaml", "--once").returncode == 0
    assert service.json("pause", name, "--for", "4h", "--why", "a test")["desired"] == "pause"
    once_more = service.run("run", "conf.yaml", "--once")
    assert once_more.returncode == 0
    assert service.json("resume", name)["desired"] == "run"
    assert service.json("mode", name, "observe")["mode"] == "observe"
    assert service.json("mode", name, "act")["mode"] == "act"
    assert service.json("retry", name) == {"retried": [name]}
    service.run("run", "conf.yaml", "--once")
    service.until(
        lambda: service.run("run", "conf.yaml", "--once").returncode == 0 and service.chain_state() == "done", "done"
    )
    refused = service.run("retry", name)
    assert refused.returncode == 3
    assert "proven done" in refused.stderr
    assert service.run("run", "conf.yaml", "--once").returncode == 0
    assert len(service.jobs()) == 1
    told = service.json("explain", name)
    assert told["verdict"]["outcome"] == "done"
    assert "what" in service.run("explain", name).stdout
    assert [a["number"] for a in service.json("history", name)["attempts"]] == [1]
    assert name in service.run("history", name, "--json").stdout
    assert service.json("stop", name)["desired"] == "stop"
    assert service.json("done", name, "--why", "enough")["desired"] == "done"
    assert service.json("forget", name)["forgotten"] == name


def test_submit_submits_once(service: Service) -> None:
    name = service.name
    service.behave("sleep 600")
    said = service.json("submit", name, "-c", "conf.yaml")
    assert said["job_id"] == int(service.jobs()[0])
    again = service.run("submit", name)
    assert (again.returncode, len(again.stderr.splitlines())) == (3, 1)
    assert len(service.jobs()) == 1
    stopped = service.run("stop", name, "--cancel", "--json")
    assert json.loads(stopped.stdout)["desired"] == "stop"
    service.cluster.wait(said["job_id"], "CANCELLED")
    service.until(
        lambda: service.run("run", "conf.yaml", "--once").returncode == 0 and service.chain_state() == "stopped",
        "the chain is stopped",
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("explain", "nobody"), 1),
        (("history", "nobody"), 1),
        (("pause", "nobody"), 1),
        (("retry", "nobody"), 1),
        (("forget", "nobody"), 1),
        (("submit", "nobody"), 1),
        (("submit", "nobody", "-c", "missing.yaml"), 2),
        (("stop", "nobody", "--cancel"), 1),
        (("mode", "nobody", "sometimes"), 2),
        (("adopt", "999999"), 1),
        (("adopt", "x"), 2),
        (("adopt", "-3"), 2),
        (("sbatch", "missing.sh"), 1),
        (("sbatch", "--qos"), 2),
        (("sbatch", "--cw-mode=perhaps", "train.sh"), 2),
        (("sbatch", "--cw-done-step=many", "train.sh"), 2),
        (("sbatch", "--cw-colour=red", "train.sh"), 2),
        (("sbatch", "."), 1),
        (("run", "missing.yaml"), 2),
        (("restore", "/nowhere"), 1),
        (("quarantine", "/nowhere"), 2),
        (("quarantine", "."), 1),
        (("backup", "/nowhere/x"), 2),
        (("nonsense",), 2),
    ],
)
def test_garbage_is_answered_in_a_line_with_its_exit_code(empty: Service, words: tuple[str, ...], code: int) -> None:
    once(empty)
    done = empty.run(*words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of chainwatch" not in done.stderr
    assert done.stderr.strip()


def test_a_job_that_died_is_diagnosed_from_its_id_alone(empty: Service) -> None:
    empty.behave("echo step: 1 loss: 2.0; echo 'OSError: [Errno 122] Disk quota exceeded: /run/ckpt' >&2; exit 1")
    outputs = ("--output=%x-%j.out", "--error=%x-%5j.err")
    said = empty.run("sbatch", "--parsable", f"--job-name={empty.name}", "--time=5", *outputs, "train.sh")
    job = said.stdout.strip()

    def judged() -> dict[str, object]:
        done = empty.run("diagnose", job, "--json")
        answer: dict[str, object] = json.loads(done.stdout) if done.returncode == 0 else {}
        return answer if answer.get("outcome") == "failed" else {}

    empty.until(judged, f"job {job} is over and diagnosed", 90)
    answer = judged()
    assert list(answer) == [
        "outcome", "cause", "retry", "culprit_nodes", "root_line", "confidence", "evidence", "ruled_out", "advice", "chain",
    ]  # fmt: skip
    assert answer["chain"]["name"] == empty.name  # type: ignore[index]
    assert (answer["cause"], answer["retry"]) == ("storage", "no")
    assert answer["root_line"] == "OSError: [Errno 122] Disk quota exceeded: /run/ckpt"
    sources = [e["source"] for e in answer["evidence"]]  # type: ignore[attr-defined]
    assert any(source.endswith(f"{empty.name}-{int(job):05d}.err") for source in sources)
    page = empty.run("diagnose", job).stdout
    assert page.startswith(f"Job {job} ended: storage fault (FAILED 1:0)")
    assert ".err:1  OSError" in page
