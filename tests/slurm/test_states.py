"""State words of every release, and what they must never be taken for."""

import pytest

from chainwatch.model.job import JobState
from chainwatch.slurm.states import parse_state

LONG_AND_SHORT = {
    # job_state_string and job_state_string_compact, 20.11 to 26.05
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "CANCELLED": "CA", "FAILED": "F",
    "TIMEOUT": "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "BOOT_FAIL": "BF", "DEADLINE": "DL", "OUT_OF_MEMORY": "OOM",
    "COMPLETING": "CG", "STAGE_OUT": "SO", "CONFIGURING": "CF", "RESIZING": "RS", "REQUEUED": "RQ",
    "REQUEUE_FED": "RF", "REQUEUE_HOLD": "RH", "SPECIAL_EXIT": "SE", "STOPPED": "ST", "REVOKED": "RV",
    "RESV_DEL_HOLD": "RD", "SIGNALING": "SI",
}  # fmt: skip
ONLY_LONG = ("POWER_UP_NODE", "UPDATE_DB", "LAUNCH_FAILED", "RECONFIG_FAIL", "EXPEDITING")


@pytest.mark.parametrize(("long", "short"), LONG_AND_SHORT.items())
def test_every_state_is_known_by_its_long_and_its_short_word(long: str, short: str) -> None:
    assert parse_state(long).state is JobState[long]
    assert parse_state(short).state is JobState[long]


@pytest.mark.parametrize("word", ONLY_LONG)
def test_flags_that_have_no_short_word_are_known(word: str) -> None:
    assert parse_state(word).state is JobState[word]


def test_the_table_leaves_no_state_of_the_model_out() -> None:
    assert {*LONG_AND_SHORT, *ONLY_LONG, "UNKNOWN"} == {state.value for state in JobState}


@pytest.mark.parametrize("text", ["", "?", "COMPLETININVALID", "HIBERNATING", "running!", "C+", "RE+", "12"])
def test_an_unknown_word_is_unknown_and_never_an_end(text: str) -> None:
    assert parse_state(text).state is JobState.UNKNOWN
    assert not parse_state(text).state.terminal


@pytest.mark.parametrize(
    ("text", "uid"),
    [("CANCELLED by 54321", 54321), ("CANCELLED by 0", 0), ("CANCELLED by -2", 2**32 - 2), ("CANCELLED", None)],
)
def test_a_cancellation_names_who_did_it(text: str, uid: int | None) -> None:
    assert parse_state(text) == (JobState.CANCELLED, uid)


@pytest.mark.parametrize(
    ("text", "state"),
    [("CANCELLED+", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("NODE_FA+", "NODE_FAIL"), ("OO", "OUT_OF_MEMORY")],
)
def test_a_plus_at_the_end_of_a_column_is_a_cut_not_a_flag(text: str, state: str) -> None:
    assert parse_state(text).state is JobState[state]


@pytest.mark.parametrize("text", ["COMPLETI+", "COMPLET+", "REQUEUE+"])
def test_a_cut_word_that_could_be_two_states_is_taken_for_neither(text: str) -> None:
    assert parse_state(text).state is (JobState.COMPLETING if text == "COMPLETI+" else JobState.UNKNOWN)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("RUNNING,COMPLETING", "COMPLETING"),
        ("FAILED,COMPLETING", "COMPLETING"),
        ("PENDING,REQUEUE_HOLD", "REQUEUE_HOLD"),
        ("PENDING,LAUNCH_FAILED", "PENDING"),
        ("FAILED,LAUNCH_FAILED", "FAILED"),
        ("CANCELLED,REVOKED", "REVOKED"),
        ("PENDING,REVOKED", "REVOKED"),
        ("RUNNING", "RUNNING"),
    ],
)
def test_of_a_state_with_flags_the_flag_counts_that_says_whether_the_job_lives(text: str, state: str) -> None:
    assert parse_state(text).state is JobState[state]


def test_completing_and_the_held_states_are_live() -> None:
    for word in ("COMPLETING", "RESIZING", "SPECIAL_EXIT", "REQUEUE_HOLD", "STOPPED", "SIGNALING", "STAGE_OUT",
                 "RESV_DEL_HOLD", "EXPEDITING", "REQUEUED"):  # fmt: skip
        assert not parse_state(word).state.terminal, word


def test_every_end_that_slurm_knows_is_terminal() -> None:
    for word in ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
                 "PREEMPTED", "TIMEOUT", "REVOKED"):  # fmt: skip
        assert parse_state(word).state.terminal, word
