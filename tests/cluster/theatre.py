"""One evening on the real cluster: every end that Slurm knows, played at the same time, watched as the daemon watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dev.slurm import PrivateCluster

from chainwatch.model.job import AttemptId, Job, JobState
from chainwatch.slurm import CliBackend, NoInformation

TRAIN = (
    f"{sys.executable} {Path(__file__).parents[2]}/dev/train.py --megabytes=0.2 --save-seconds=0.1 --step-seconds=0.05"
)
STEP_TRAPS = "srun -n1 bash -c 'trap \"exit {code}\" TERM; echo ready; while :; do sleep 0.1; done'"
ONCE = '[ -n "$SLURM_RESTART_COUNT" ] && exit 0\nsleep 600'
"""Sleeps in its first run, ends at once when it was requeued."""


@dataclass
class Theatre:
    """The jobs by their part in the play, and everything that the queue showed of them."""

    cluster: PrivateCluster
    backend: CliBackend
    ids: dict[str, int] = field(default_factory=dict)
    seen: dict[AttemptId, Job] = field(default_factory=dict)
    """The newest look at every attempt, joined with the older ones: a PreemptTime that anybody saw is kept."""

    shown: dict[str, Job | None] = field(default_factory=dict)
    """What the controller said of a job in full, right after it was submitted."""

    def submit(self, part: str, script: str, *options: str, args: Sequence[str] = ()) -> int:
        """Submit the job of a part; on node n1 where the options name no other."""
        place = () if any(option.startswith("--nodelist") for option in options) else ("--nodelist=n1",)
        self.ids[part] = self.cluster.sbatch(script, f"--job-name={part}", *place, *options, args=args)
        return self.ids[part]

    def look(self) -> None:
        """One poll of the queue."""
        for job in self.backend.queue(None):
            before = self.seen.get(job.attempt)
            self.seen[job.attempt] = job if before is None else job.merged(before)

    def until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        """Watch until it is true."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if true():
                return
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.5)

    def now(self, part: str) -> Job | None:
        """The part's newest attempt as the queue showed it last."""
        runs = [job for job in self.seen.values() if job.job_id == self.ids[part]]
        return max(runs, key=lambda job: job.attempt.submitted, default=None)

    def is_in(self, part: str, *states: JobState) -> bool:
        """The newest attempt of the part is in one of the states."""
        job = self.now(part)
        return job is not None and job.state in states

    def ended(self, part: str) -> bool:
        """The newest attempt of the part is over."""
        job = self.now(part)
        return job is not None and job.state.terminal

    def restarted(self, part: str) -> bool:
        """The part's job was requeued."""
        return len({job.attempt for job in self.seen.values() if job.job_id == self.ids[part]}) > 1

    def records(self, part: str) -> list[Job]:
        """Every attempt of the part: accounting's record, its gaps filled with what the queue showed of the attempt."""
        rows = self.backend.accounting([self.ids[part]])
        return [replace(self.seen.get(row.attempt, row).merged(row), state=row.state) for row in rows]

    def end(self, part: str) -> Job:
        """The one attempt of the part; accounting must know its end."""
        rows = self.records(part)
        assert len(rows) == 1, f"{part}: {len(rows)} attempts"
        return rows[0]

    def log(self, part: str) -> str:
        """What the part's job printed."""
        return self.cluster.job_log(self.ids[part])


def submit_plain_ends(play: Theatre) -> None:
    """Ends that need nobody: the script ends by itself."""
    cluster = play.cluster
    play.submit("all_steps_good", "srun true; srun true")
    play.submit("a_step_failed", "srun bash -c 'exit 3'; srun bash -c 'kill -9 $$'; exit 0")
    play.submit("before_the_final_step", f"srun {TRAIN} --checkpoints={cluster.jobs}/early --steps=2")
    play.submit(
        "after_the_final_step",
        f"srun {TRAIN} --checkpoints={cluster.jobs}/late --steps=3 --save-every=3 --exit-code-after-done=134",
    )
    play.submit("no_place_for_output", "true", f"--output={cluster.jobs}/none/%j.out")
    play.submit("exit_1", "exit 1")
    play.submit("step_exit_1", "srun bash -c 'exit 1'")
    play.submit("killed", "kill -9 $$")
    play.submit("segfault", "kill -SEGV $$")
    play.submit("child_killed", "bash -c 'kill -9 $$'\nexit $?")
    for number, missing in enumerate(("stays", "goes")):
        kill = "yes" if missing == "goes" else "no"
        options = (f"--dependency=afterok:{play.ids['exit_1']}", f"--kill-on-invalid-dep={kill}")
        play.submit(f"dependency_{missing}", "true", *options, f"--comment={number}")
    play.submit("array_of_one_lane", "exit $((SLURM_ARRAY_TASK_ID == 1))", "--array=0-2%1")
    play.shown["array_of_one_lane"] = play.backend.job(play.ids["array_of_one_lane"])
    play.submit("array", "exit $SLURM_ARRAY_TASK_ID", "--array=0-1")
    # Each component is a job of its own: what is said of the first must be said of the second.
    play.submit("het", "srun --het-group=0,1 true", "--nodelist=n1", "-n1", ":", "-n1", "--nodelist=n3")


def submit_waiting_jobs(play: Theatre) -> None:
    """Jobs that wait for something that does not come."""
    for who in ("user", "admin"):
        play.submit(f"held_by_{who}", "true", "--hold")
        job = str(play.ids[f"held_by_{who}"])
        play.cluster.run("scontrol", "release", job)
        play.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now+1hour")
        play.cluster.run("scontrol", "uhold" if who == "user" else "hold", job)
    play.submit("cancelled_while_pending", "true", "--begin=now+1hour")
    play.cluster.run("scancel", str(play.ids["cancelled_while_pending"]))


def submit_long_jobs(play: Theatre) -> None:
    """Jobs that somebody or something ends."""
    play.submit("timeout", "trap 'exit 0' TERM\nsleep 600 & wait", "--time=10")
    play.submit("cancelled", "trap 'exit 0' TERM\nsleep 600 & wait")
    play.submit("requeued", ONCE, "--requeue")
    play.submit("requeued_held", ONCE, "--requeue")
    play.submit("silent_node", f"while :; do date +%s >{play.cluster.jobs}/heartbeat; sleep 0.3; done", *on("n2", "no"))
    preempted = ("--nodelist=n3", "--time=10")
    play.submit("preempted", "sleep 600", "--qos=extra", *preempted)
    play.submit("preempted_and_back", ONCE, "--qos=extra-requeue", *preempted)
    play.submit("grace_exit_1", STEP_TRAPS.format(code=1), "--qos=extra", "--no-requeue", *preempted)
    play.submit("grace_exit_0", STEP_TRAPS.format(code=0), "--qos=extra", "--no-requeue", *preempted)
    play.submit("node_fail", "sleep 600", *on("n4", "no"))
    play.submit("node_fail_and_back", ONCE, *on("n4", "yes"))


def on(node: str, requeue: str) -> tuple[str, ...]:
    """Options: this node, with or without Slurm's own requeue."""
    return (f"--nodelist={node}", "--requeue" if requeue == "yes" else "--no-requeue")


def strike(play: Theatre) -> None:
    """What happens to the long jobs, all at the same time."""
    cluster = play.cluster
    long = ("timeout", "cancelled", "requeued", "requeued_held", "silent_node", "preempted", "preempted_and_back")
    more = ("grace_exit_1", "grace_exit_0", "node_fail", "node_fail_and_back")
    play.until(lambda: all(play.is_in(part, JobState.RUNNING) for part in (*long, *more)), 60, "the long jobs run")
    for part in ("grace_exit_1", "grace_exit_0"):
        play.until(lambda part=part: "ready" in play.log(part), 20, f"the step of {part} runs")  # type: ignore[misc]
    cluster.kill_slurmd("n2")
    play.submit("preemptor", "sleep 1", "--qos=normal", "--exclusive", "--nodelist=n3", "--time=1")
    # A time limit is a whole number of minutes; the end that follows from it can be moved.
    cluster.run("scontrol", "update", f"JobId={play.ids['timeout']}", "EndTime=now+1")
    cluster.run("scancel", str(play.ids["cancelled"]))
    cluster.run("scontrol", "requeue", str(play.ids["requeued"]))
    cluster.run("scontrol", "requeuehold", str(play.ids["requeued_held"]))
    cluster.kill_slurmd("n4")
    cluster.run("scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=end of the play")


def play_all(cluster: PrivateCluster) -> Theatre:
    """Play every end and watch until all are over; about a minute."""
    play = Theatre(cluster, CliBackend(cluster.name, str(cluster.conf), environment=cluster.env))
    submit_long_jobs(play)
    submit_plain_ends(play)
    submit_waiting_jobs(play)
    strike(play)
    play.until(lambda: play.restarted("node_fail_and_back"), 60, "the job of the failed node is back")
    cluster.revive_node("n4")
    waiting = {"dependency_stays", "held_by_user", "held_by_admin", "requeued_held"}
    alone = {"array_of_one_lane", "array", "het"}
    play.until(lambda: play.is_in("requeued_held", JobState.PENDING), 60, "the requeued job is held")
    back = {"requeued", "preempted_and_back", "node_fail_and_back"}
    play.until(
        lambda: (
            all(play.ended(part) for part in play.ids if part not in waiting | alone)
            and all(play.restarted(part) for part in back)
        ),
        90,
        "every job has ended",
    )
    play.until(lambda: knows_all(play, waiting), 30, "accounting knows every end")
    return play


def knows_all(play: Theatre, waiting: set[str]) -> bool:
    """Accounting has a terminal state for every job that ended."""
    try:
        records = [play.backend.accounting([job]) for part, job in play.ids.items() if part not in waiting]
    except NoInformation:
        return False
    return all(rows and rows[-1].state.terminal for rows in records)


def heartbeat_age(cluster: PrivateCluster) -> float:
    """Seconds since the job on the silent node wrote last."""
    return time.time() - os.stat(cluster.jobs / "heartbeat").st_mtime
