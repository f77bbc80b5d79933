"""A chain with a live job: what it does is followed, what it waits for is looked at, and of two one goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from chainwatch.config.models import Chain
from chainwatch.model.chain import ChainState, Desired, EndJob, LeaveAlone
from chainwatch.model.job import Job, JobState
from chainwatch.store.records import ChainRecord
from chainwatch.supervisor import probing, tracking, warning, watching
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.closing import Closing
from chainwatch.supervisor.hanging import Hanging
from chainwatch.supervisor.probing import Inquiry, Probing
from chainwatch.supervisor.queued import Queued
from chainwatch.supervisor.readers import Place, Silent
from chainwatch.supervisor.scene import Scene, ours
from chainwatch.supervisor.standby import Standby


class Living:
    """Looks after the live jobs of one house's chains."""

    def __init__(self, acting: Acting, closing: Closing, standby: Standby) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces
        self._closing = closing
        self._probing = Probing(acting.house)
        self._hanging = Hanging(acting.traces)
        self._standby = standby
        self._queued = Queued(acting)

    def look_after(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        live: Sequence[Job],
        scene: Scene,
        now: datetime,
    ) -> ChainRecord:
        record = self._closing.close_requeued(record, settings, place, scene, now)
        standby = self._standby.behind(record, live)
        live = [j for j in live if j is not standby]
        on_nodes = [j for j in live if j.state.on_nodes]
        if len(live) > 1 and not _one_array(live):
            self._two_live(record, live, on_nodes, now)
            record = self.traces.again(record)  # whose facts are written anew below
        job = on_nodes[-1] if on_nodes else live[0]
        if len(live) == 1 and (why := self._standby.surplus(record, settings, job, scene, now)):
            state = ChainState.RUNNING if on_nodes else ChainState.PENDING
            return self.traces.state(record, state, f"job {job.shown_id}, which stood by, is cancelled: {why}", now)
        if on_nodes:
            if job.state is JobState.COMPLETING:
                self.acting.right.set_right(record, settings, place, now, job)
            return self._running(record, settings, place, job, standby, scene, now)
        self._standby.keep(record, settings, place, job, standby, scene, now)
        record = self.traces.again(record)
        if record.desired is Desired.STOP:
            return self.traces.state(
                record, ChainState.STOPPED, f"stopped by a person; job {job.shown_id} still waits", now
            )
        self.acting.right.set_right(record, settings, place, now, None)
        return self._queued.look(record, settings, job, now)

    def _running(
        self,
        record: ChainRecord,
        settings: Chain,
        place: Place,
        job: Job,
        standby: Job | None,
        scene: Scene,
        now: datetime,
    ) -> ChainRecord:
        progress = self.house.readers.progress(place, job, now=now)
        changes: dict[str, Any] = {}
        if not isinstance(progress, Silent):
            if progress.step is not None and progress.step != record.step:
                changes["step"] = progress.step
            if progress.saved_step is not None and progress.saved_step != record.saved_step:
                changes["saved_step"] = progress.saved_step
            if progress.target is not None and progress.target != record.target:
                changes["target"] = progress.target
        report, looked = tracking.running(self.house.readers, record, settings, place, progress, now)
        if report is not None and report.newest_intact is not None and report.newest_intact.step is not None:
            changes["saved_step"] = tracking.newest_saved(record, report)
            told = isinstance(progress, Silent) or progress.step is not None
            if not told and report.newest_intact.step > (record.step if record.step is not None else -1):
                changes["step"] = report.newest_intact.step  # nothing else says how far it is
        seen = watching.look(record, settings, job, progress, scene.watches, now, self.house.config.poll)
        alone = None if seen.together else seen.silence
        inquiry = self._probing.inquire(record, settings, job, alone, now)
        decision = self._hanging.decide(record, settings, job, alone, inquiry.book) if alone else None
        with self.house.store.transaction(self.house.lease):
            facts = watching.tell(self.traces, record, job, seen, now, _looked(inquiry, decision))
            facts |= warning.look(self.traces, record, settings, job, progress, seen.silence is not None, now)
            changes["facts"] = {**facts, **looked, probing.FACT: inquiry.book.as_dict()}
            tracking.progress(self.house.store, record.name, progress, now)
            tracking.report(self.house.store, record.name, report)
            record = self.house.store.update_chain(record.name, **changes)
            if seen.restarted:
                self._event(record, job, seen.restarted, now)
        if inquiry.begin:
            self._probing.begin(record, settings, job, now)
        words = f"job {job.shown_id} is {job.state.lower()}"
        if seen.silence is not None:
            words += ", and fell silent with others" if seen.together else ", and seems to hang"
        if alone is not None and inquiry.book.findings:
            words += f": {inquiry.book.findings[-1].sentence}"
        ends = self._hanging.step(record, job, decision, now)
        if ends:
            words = f"job {job.shown_id} {ends}"
        if job.preempted_at is not None:
            words = f"job {job.shown_id} is being preempted"
        words += self._standby.keep(record, settings, place, job, standby, scene, now)
        return self.traces.state(self.traces.again(record), ChainState.RUNNING, words, now)

    def _event(self, record: ChainRecord, job: Job, sentence: str, now: datetime) -> None:
        """Something happened inside the attempt that calls for nothing. In the caller's transaction."""
        number = self.traces.number(record, job)
        self.traces.write(record.name, number, LeaveAlone(sentence), now, sentence)
        self.house.say(sentence, record, {"attempt": number})

    def _two_live(self, record: ChainRecord, live: Sequence[Job], on_nodes: Sequence[Job], now: datetime) -> None:
        """Of two live jobs only our own pending one may be cancelled: the one that would double the other."""
        ours_pending = [j for j in live if not j.state.on_nodes and ours(j, record)]
        keep_one = not on_nodes and len(ours_pending) == len(live)
        for job in ours_pending[1:] if keep_one else ours_pending:
            self.acting.cancelling.cancel_pending(record, job, "another job of this chain lives", now)
        if len(on_nodes) > 1:
            with self.house.store.transaction(self.house.lease):
                ids = ", ".join(j.shown_id for j in on_nodes)
                self.traces.owe(
                    record, f"two:{ids}", "critical", f"{record.name}: jobs {ids} run at the same time", now,
                    why="two writers can damage every checkpoint; chainwatch never cancels a running job for it",
                    wants="cancel one of them", command=f"scancel {on_nodes[-1].shown_id}",
                )  # fmt: skip


def _looked(inquiry: Inquiry, decision: EndJob | LeaveAlone | None) -> watching.Looked:
    """What the alert of a silence says of the look at the job's processes."""
    findings = inquiry.book.findings
    saw = findings[-1].sentence if findings else ""
    why = decision.why if isinstance(decision, LeaveAlone) else "it is ended"
    did = f"looked at its processes; {why}" if findings else f"nothing: {why}"
    return watching.Looked(saw, did, inquiry.waits)


def _one_array(live: Sequence[Job]) -> bool:
    """Tasks of one `%1` array: Slurm itself runs them one after the other."""
    arrays = {j.array_job_id for j in live}
    return len(arrays) == 1 and None not in arrays
