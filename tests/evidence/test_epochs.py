"""Keras says nothing at a good end: the bar of its last epoch tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.diagnosis import diagnose
from chainwatch.evidence.logs import LogFile, read_logs
from chainwatch.evidence.logs.epochs import last_epoch_done
from chainwatch.model.job import AttemptId, ExitCode, Job, JobState, Source
from chainwatch.model.verdict import Cause, Evidence, Outcome, Verdict
from tests.recovery.build import NOW

BAR = "\x1b[1m{0}/1875\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m \x1b[1m5s\x1b[0m 2ms/step - accuracy: 0.98 - loss: 0.05"


def epochs(last: int, of: int = 10, full: bool = True, between: str = "\n") -> str:
    """A log of so many epochs, the last of which is done or not."""
    text = ""
    for number in range(1, last + 1):
        done = [1, 2, 900, 1875] if full or number < last else [1, 2, 900]
        text += f"Epoch {number}/{of}\n" + between.join(BAR.format(i) for i in done) + "\n"
    return text


def verdict(log: Path, text: str) -> Verdict:
    log.write_text(text)
    job = Job(AttemptId("c", 1, NOW), "1", JobState.FAILED, Source.ACCOUNTING, exit=ExitCode(139))
    return diagnose(Evidence(job, logs=read_logs([LogFile(str(log))])))


@pytest.mark.parametrize("between", ["\n", "\r"])
@pytest.mark.parametrize(
    "after", ["Segmentation fault (core dumped)\n", "", "313/313 - 1s - accuracy: 0.97\nAborted\n"]
)
def test_a_crash_after_the_last_epoch_asks_a_person_and_is_not_retried(
    tmp_path: Path, after: str, between: str
) -> None:
    found = verdict(tmp_path / "log", epochs(10, between=between) + after)
    assert (found.outcome, found.cause) == (Outcome.ENDED, Cause.COMPLETED)
    assert found.root_line is not None
    assert "1875/1875" in found.root_line
    assert found.evidence[0].line == epochs(10, between=between).count("\n")


@pytest.mark.parametrize("text", [epochs(9), epochs(10, full=False), epochs(10) + epochs(1), "Epoch 10/10\n"])
def test_an_epoch_that_is_not_the_last_or_not_done_is_no_end(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path / "log", text + "Segmentation fault (core dumped)\n").cause is not Cause.COMPLETED


def test_a_failure_that_says_what_it_is_is_no_crash_at_the_end(tmp_path: Path) -> None:
    text = epochs(10) + "botocore.exceptions.NoCredentialsError: Unable to locate credentials\n"
    assert verdict(tmp_path / "log", text).cause is Cause.USER_CONFIG


def test_keras_2_and_bars_without_a_bar_are_known_and_other_words_are_not() -> None:
    assert last_epoch_done(b"Epoch 2/2\n1875/1875 [==============================] - 4s 2ms/step - loss: 0.1\n", 0)
    assert last_epoch_done(b"Epoch 2/2\n1875/1875 - 5s - loss: 0.0543 - accuracy: 0.9834\n", 0)
    assert last_epoch_done(b"Epoch 2/2\n100%|#####| 1875/1875 [00:12<00:00]\n", 0) is None
    assert last_epoch_done(b"at Epoch 2/2\n1875/1875 - 5s - loss: 0.1\n", 0) is None
