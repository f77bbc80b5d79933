"""Effects whose outcome is not known: a submission is looked up by its token until the answer is conclusive."""

from __future__ import annotations

from datetime import datetime

from chainwatch.actions import submit as submission
from chainwatch.model.chain import Desired
from chainwatch.store.records import ChainRecord, Intent, IntentKind, IntentStatus
from chainwatch.supervisor.acting import Acting
from chainwatch.supervisor.hanging import Hanging
from chainwatch.supervisor.scene import Scene


class Doubtful:
    """Closes the open intents of one house's chains."""

    def __init__(self, acting: Acting) -> None:
        self.house = acting.house
        self.acting = acting
        self.traces = acting.traces
        self._hanging = Hanging(acting.traces)

    def settle(self, record: ChainRecord, scene: Scene, now: datetime) -> str | None:
        """Close what can be closed; the reason why one stays open, or None."""
        waiting = None
        for intent in self.house.store.open_intents(record.name):
            if intent.kind is IntentKind.END:
                self._hanging.settle(record, intent, scene, now)  # else it is gone on with
                continue
            if intent.kind is not IntentKind.SUBMIT:
                self.house.store.close_intent(
                    self.house.lease, intent, IntentStatus.ABANDONED, now, note="interrupted; decided anew"
                )
                continue
            waiting = self._submission(record, intent, scene, now) or waiting
        return waiting

    def _submission(self, record: ChainRecord, intent: Intent, scene: Scene, now: datetime) -> str | None:
        store, lease = self.house.store, self.house.lease
        if intent.tried_at is None:
            if now - intent.created < self.house.settle and intent.payload.get("by") == "command":
                return "a command is about to submit it"
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="never tried; decided anew")
            return None
        answer = submission.look_up(intent, scene.snapshot, now, self.house.settle, scene.remembers)
        if isinstance(answer, submission.Found):
            with store.transaction(lease):
                store.close_intent(lease, intent, IntentStatus.DONE, now, job_id=answer.job.job_id, note="found again")
                self.traces.expect(record.name, answer.job.job_id, intent, now)
            self.house.say(f"job {answer.job.shown_id} of a doubtful submission was found and adopted", record, {})
            return None
        if isinstance(answer, submission.StillOpen):
            if answer.counts:
                store.note_absent(intent, now)
            if not (answer.lost and self._told_by_a_person(record, intent, answer.why, now)):
                return answer.why
        if record.desired is not Desired.RUN or not self.house.may_act(record):
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="surely absent, and no longer wanted")
            return None
        if "standby" in intent.payload:
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="surely absent; decided anew")
            return None
        if any(not j.state.terminal for j in scene.jobs):
            store.close_intent(lease, intent, IntentStatus.ABANDONED, now, note="surely absent; another job lives")
            return None
        store.note_absent(intent, now)
        return self.acting.submitting.try_again(record, intent, now)

    def _told_by_a_person(self, record: ChainRecord, intent: Intent, why: str, now: datetime) -> bool:
        """Slurm will never tell about this submission. A person who asks for a retry says that its job is not there."""
        if record.retried_at is not None and intent.tried_at is not None and record.retried_at > intent.tried_at:
            return True
        with self.house.store.transaction(self.house.lease):
            self.traces.owe(
                record, f"doubtful:{intent.token}", "critical",
                f"{record.name}: nobody can say whether its last submission became a job", now, why=why,
                did="nothing: a second job could run beside the first",
                wants="look into the chain's directory; if no job has run or runs: retry",
                command=f"chainwatch retry {record.name}",
            )  # fmt: skip
        return False
