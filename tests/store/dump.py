"""Writes the database of this release as SQL, for the test that later releases still read it.

Run it when a release is made: `python -m tests.store.dump > tests/store/data/REVISION.sql`.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from chainwatch.model.chain import ExcludedNode, FromCheckpoint, Resubmit
from chainwatch.model.checkpoint import Checkpoint, RunReport, Status
from chainwatch.model.verdict import Cause, Evidence, Finding, Line, LogEvidence, Outcome, Retry, Verdict
from chainwatch.store import Store, open_store
from chainwatch.store.records import IntentKind, IntentStatus
from tests.store.build import MINUTE, NOW, attempt, job, record


def fill(store: Store) -> None:
    """One of everything."""
    store.add_chain(record(environment={"PATH": "/bin"}, facts={"absent": 1}))
    store.update_chain("llama", step=120, saved_step=100)
    intact = Checkpoint("/ckpt/step100", 100, "deepspeed", Status.INTACT, "all files whole")
    verdict = Verdict(Outcome.PREEMPTED, Cause.PREEMPTION, Retry.YES, 1.0, "was preempted", culprit_nodes=("n1",))
    store.put_attempt("llama", replace(attempt(7), verdict=verdict, ended=NOW))
    store.put_attempt("llama", attempt(8))
    line = Line("train.log", 5, "slurmstepd: error: *** JOB 7 CANCELLED DUE TO PREEMPTION ***")
    finding = Finding("slurm/preempted", Cause.PREEMPTION, 90, line, 5, extracted={"job": "7"})
    report = RunReport("/ckpt", "deepspeed", (intact,), intact)
    evidence = Evidence(job(7), logs=LogEvidence(findings=(finding,), tail=(line,)), checkpoints=report)
    store.put_evidence("llama", 1, evidence)
    store.add_decision("llama", 1, Resubmit(FromCheckpoint(intact), "preempted"), NOW, "resubmits from step 100")
    lease = store.acquire_lease("login1:1", MINUTE, NOW)
    intent = store.begin_intent(lease, "llama", IntentKind.SUBMIT, "t1", {"argv": ["sbatch", "train.sh"]}, NOW)
    store.close_intent(lease, store.mark_tried(lease, intent, NOW), IntentStatus.DONE, NOW, job_id=8)
    store.release_lease(lease)
    store.owe("llama", "llama:preempted", "info", "preempted", {"what": "preempted"}, NOW)
    store.exclude(ExcludedNode("n1", "Xid 79", NOW, NOW + MINUTE, "llama"))
    store.plan_move("llama", "set_aside", "/ckpt/step120", "/ckpt/.aside/step120", "", "truncated", NOW)
    store.bump("submissions", {"chain": "llama"})
    store.remember("last_poll", {"at": 5})


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(Path(directory) / "state")
        fill(store)
        copy = store.backup(Path(directory) / "copy.db")
        store.close()
        with closing(sqlite3.connect(copy)) as database:
            print("\n".join(database.iterdump()))


if __name__ == "__main__":
    main()
