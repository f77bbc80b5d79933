"""The log reader: only this attempt, whatever the size, the colours, the ranks and the bytes."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainwatch.evidence import Limits, LogFile, read_logs
from chainwatch.model.verdict import Cause, Finding, LogEvidence
from chainwatch.signatures import Matcher, builtin_matcher, parse_signatures

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB."
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def read(path: Path, **how: object) -> LogEvidence:
    return read_logs([LogFile(str(path))], **how)  # type: ignore[arg-type]


def log(folder: Path, text: str | bytes, name: str = "job.log") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def only(logs: LogEvidence, cause: Cause) -> Finding:
    found = [f for f in logs.findings if f.cause is cause and not f.effect]
    assert len({f.where for f in found}) == 1
    return max(found, key=lambda f: f.specificity)


def test_a_line_is_quoted_verbatim_with_its_number(tmp_path: Path) -> None:
    line = f"\x1b[31m[rank3]: {OOM}\x1b[0m"
    found = only(read(log(tmp_path, f"step 1 loss 2\nstep 2 loss 2\n{line}\n")), Cause.OOM_GPU)
    assert found.where.text == line
    assert found.where.line == 3
    assert found.rank == 3


@pytest.mark.parametrize(
    ("prefix", "rank", "node"),
    [
        ("[rank3]: ", 3, None),
        ("[default5]:", 5, None),
        ("7: ", 7, None),
        ("[1,9]<stderr>:", 9, None),
        ("n01: ", None, "n01"),
        ("n01: 4: [rank12]: ", 12, "n01"),
        ("(TrainWorker pid=4711, ip=10.0.0.5) ", None, None),
    ],
)
def test_prefixes_of_ranks_and_nodes_are_read_and_stripped(
    tmp_path: Path, prefix: str, rank: int | None, node: str | None
) -> None:
    found = read(log(tmp_path, f"{prefix}ValueError: bad value\n"), nodes=("n01", "n02")).findings
    assert [(f.signature, f.rank, f.node) for f in found] == [("code/value-error", rank, node)]


@pytest.mark.parametrize(
    "time",
    [
        "2024-05-05T12:13:17.123456Z ",
        "2024-05-05T12:13:17.123456789+02:00 stderr F ",
        "[2024-05-05 12:13:17] ",
        "2024-05-05 12:13:17,100 ",
        "12:13:17 ",
        "May  5 12:13:17 n3 ",
        "May  5 12:13:17 n3 train.sh[812]: ",
    ],
)
def test_a_time_before_every_line_hides_neither_tracebacks_nor_errors(tmp_path: Path, time: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    g()", "KeyError: 'x'"]
    logs = read(log(tmp_path, "".join(f"{time}{line}\n" for line in lines)))
    assert [f.where.text for f in logs.findings if f.cause is Cause.USER_CODE] == [f"{time}KeyError: 'x'"]
    unnamed = read(log(tmp_path, f"{time}sudo: a password is required\n"))
    assert [f.cause for f in unnamed.findings] == [Cause.ENVIRONMENT]


def test_a_word_before_a_colon_is_no_node_unless_the_job_has_it(tmp_path: Path) -> None:
    assert read(log(tmp_path, f"Trainer: {OOM}\n"), nodes=("n01",)).findings[0].node is None


def test_a_progress_bar_that_ends_in_carriage_returns_hides_nothing(tmp_path: Path) -> None:
    bars = "\r".join(f" {n}%|#| {n}/100 [00:01<00:02, 1.0it/s]" for n in range(100))
    found = only(read(log(tmp_path, f"{bars}\r{OOM}\n")), Cause.OOM_GPU)
    assert found.where.text == OOM
    assert found.where.line == 1


def test_bytes_that_are_no_utf8_are_shown_and_do_no_harm(tmp_path: Path) -> None:
    found = only(read(log(tmp_path, b"\xff\xfe step 1\n\xff" + OOM.encode() + b"\x80\n")), Cause.OOM_GPU)
    assert "CUDA out of memory" in found.where.text


def test_a_line_of_a_megabyte_is_matched_and_quoted_in_part(tmp_path: Path) -> None:
    found = only(read(log(tmp_path, OOM + "x" * (1 << 20) + "\n")), Cause.OOM_GPU)
    assert len(found.where.text) <= 8192


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    logs = read(path)
    assert not logs.readable
    assert "regular file" in logs.problem


def test_a_device_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert not read(Path("/dev/zero")).readable
    assert not read(tmp_path).readable


def test_a_missing_log_is_no_information_and_not_a_clean_log(tmp_path: Path) -> None:
    logs = read(tmp_path / "gone.log")
    assert not logs.readable
    assert "gone.log" in logs.problem


def test_of_several_files_the_readable_ones_count(tmp_path: Path) -> None:
    out, err = log(tmp_path, "step 5 loss 1\n", "out"), log(tmp_path, f"{OOM}\n", "err")
    logs = read_logs([LogFile(str(out)), LogFile(str(err)), LogFile(str(tmp_path / "gone"))])
    assert logs.readable
    assert "gone" in logs.problem
    assert only(logs, Cause.OOM_GPU).where.source == str(err)
    assert logs.step == 5


def test_only_the_part_from_a_known_offset_counts(tmp_path: Path) -> None:
    old = f"{ECC}\n"
    path = log(tmp_path, old + f"step 1 loss 1\n{OOM}\n")
    logs = read_logs([LogFile(str(path), start=len(old))])
    assert {f.cause for f in logs.findings} == {Cause.OOM_GPU}
    assert only(logs, Cause.OOM_GPU).where.line == 3


def test_an_offset_beyond_the_end_means_that_the_file_was_replaced(tmp_path: Path) -> None:
    assert read_logs([LogFile(str(log(tmp_path, f"{OOM}\n")), start=10_000)]).findings


def test_slurms_notice_of_an_earlier_end_is_where_this_attempt_begins(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, 12, 0, 0).astimezone()
    before = (start - timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%S")
    text = (
        f"{ECC}\nslurmstepd: error: *** JOB 608 ON n1 CANCELLED AT {before} DUE TO PREEMPTION ***\n"
        f"starting\nstep 1 loss 1\n{OOM}\n"
    )
    logs = read(log(tmp_path, text), since=start)
    assert {f.cause for f in logs.findings} == {Cause.OOM_GPU}


@pytest.mark.parametrize("seconds", [8, 121])
def test_what_a_requeued_attempt_said_last_is_not_the_next_ones_however_soon_that_begins(
    tmp_path: Path, seconds: int
) -> None:
    """The kind: a job that requeued itself at its limit was said to have met it again when it crashed, and was retried."""
    start = datetime(2026, 3, 1, 12, 0, 0).astimezone()
    before = start - timedelta(seconds=seconds)
    text = (
        f"submitit WARNING ({before:%Y-%m-%d %H:%M:%S},025) - Caught signal SIGUSR2 on n1: this job is preempted.\n"
        f"slurmstepd: error: *** JOB 608 ON n1 CANCELLED AT {before:%Y-%m-%dT%H:%M:%S} DUE TO JOB REQUEUE ***\n"
        f"starting\nstep 1 loss 1\n{OOM}\n"
    )
    path = log(tmp_path, text)
    assert {f.cause for f in read(path, since=start).findings} == {Cause.OOM_GPU}
    whole = read(path, since=before - timedelta(minutes=10))
    assert Cause.TIME_LIMIT in {f.cause for f in whole.findings}, "the attempt that was requeued has it"


def test_time_stamps_show_where_this_attempt_begins(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, 12, 0, 0).astimezone()

    def stamped(hours: float, text: str) -> str:
        return f"{start + timedelta(hours=hours):%Y-%m-%d %H:%M:%S},000 {text}\n"

    old = "".join(stamped(-40 + n / 1000, f"INFO step {n}") for n in range(3000)) + stamped(-36, ECC)
    new = "".join(stamped(n / 1000, f"INFO step {n}") for n in range(50)) + f"{OOM}\n"
    logs = read(log(tmp_path, old + new), since=start)
    assert {f.cause for f in logs.findings if not f.effect} == {Cause.OOM_GPU}


def test_a_containers_utc_clock_does_not_cut_this_attempt_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        start = datetime(2026, 3, 1, 12, 0, 0).astimezone()
        in_utc = (start + timedelta(minutes=1)).astimezone(UTC)
        text = f"{in_utc:%Y-%m-%d %H:%M:%S} INFO begin\n{OOM}\n{in_utc:%Y-%m-%d %H:%M:%S} ERROR {ECC}\n"
        assert {f.cause for f in read(log(tmp_path, text), since=start).findings} >= {Cause.OOM_GPU, Cause.HARDWARE_GPU}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_fault_is_told_from_one_that_training_survived(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss 1.0\n" for n in range(30))
    assert only(read(log(tmp_path, f"step 0 loss 1\n{ECC}\n{steps}")), Cause.HARDWARE_GPU).survived == 12
    assert only(read(log(tmp_path, f"{steps}{ECC}\nstep 29 loss 1.0\n")), Cause.HARDWARE_GPU).survived == 1


def test_quoted_source_code_of_a_traceback_is_not_what_happened(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        '    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")\n'
        "ValueError: other\n"
    )
    assert {f.cause for f in read(log(tmp_path, text)).findings if not f.effect} == {Cause.USER_CODE}


def test_what_ends_a_traceback_is_an_exception_whatever_its_class_is_called(tmp_path: Path) -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        "[rank0]: step 10 loss 2\n"
        '[rank1]:   File "ppo.py", line 80, in make_env\n'
        "[rank1]:     env = gym.make(name)\n"
        "[rank1]: gymnasium.error.NameNotFound: Environment `Pong` doesn't exist.\n"
        "[rank0]: step 11 loss 2\n"
    )
    found = [f for f in read(log(tmp_path, text)).findings if not f.effect]
    assert [(f.where.line, f.rank) for f in found] == [(5, 1)]


def test_a_line_after_a_traceback_that_names_no_class_is_no_exception(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nepoch: 3\n'
    assert all(f.effect for f in read(log(tmp_path, text)).findings)


def test_context_is_taken_from_the_same_rank_only(tmp_path: Path) -> None:
    text = (
        '[rank1]:   File "torch/serialization.py", line 1, in torch.load\n'
        '[rank2]:   File "torch/serialization.py", line 1, in torch.load\n'
        "[rank0]: step 5\n[rank0]: EOFError: Ran out of input\n"
    )
    assert "checkpoint/unpickling" not in {f.signature for f in read(log(tmp_path, text)).findings}
    same = text.replace("[rank0]: EOF", "[rank2]: EOF")
    assert "checkpoint/unpickling" in {f.signature for f in read(log(tmp_path, same)).findings}


def test_a_huge_log_is_read_in_part_and_says_how_much_was_not(tmp_path: Path) -> None:
    limits = Limits(whole=1 << 16, head=1 << 12, tail=1 << 14, search=1 << 15, count=1 << 20)
    path = log(tmp_path, "step 1 loss 2.0 all is well here\n" * 20_000 + f"{OOM}\n")
    logs = read(path, limits=limits)
    assert only(logs, Cause.OOM_GPU).where.line == 20_001
    assert logs.unread > 0
    assert logs.bytes_read < 1 << 20


def test_the_cause_is_looked_for_backwards_while_the_end_holds_only_effects(tmp_path: Path) -> None:
    limits = Limits(whole=1 << 14, head=1 << 10, tail=1 << 13, search=1 << 20, count=0)
    echo = "n1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<53735>\n"
    path = log(tmp_path, "step 1 loss 2\n" * 9000 + f"{OOM}\n" + echo * 2000)
    found = only(read(path, limits=limits), Cause.OOM_GPU)
    assert found.where.line is None
    assert found.where.offset == 9000 * len("step 1 loss 2\n")


def test_a_million_like_lines_cost_little_and_the_last_is_kept(tmp_path: Path) -> None:
    line = "n1:1:2 [{}] NCCL WARN socketProgress: Connection closed by remote peer n2<{}>\n"
    path = log(tmp_path, "".join(line.format(n % 8, n) for n in range(60_000)))
    began = time.perf_counter()
    logs = read(path)
    assert time.perf_counter() - began < 3
    assert max(f.where.line or 0 for f in logs.findings) == 60_000
    assert len(logs.findings) < 40


def test_a_pattern_that_would_stall_a_backtracking_engine_is_harmless(tmp_path: Path) -> None:
    text = "family: mine\nsignatures:\n- {id: evil, match: '(x+x+)+y zzz', cause: user_code, specificity: 50}\n"
    matcher = Matcher(parse_signatures(text, "mine.yaml"))
    path = log(tmp_path, ("x" * 50_000 + " zzz\n") * 20)
    began = time.perf_counter()
    assert not read(path, matcher=matcher).findings
    assert time.perf_counter() - began < 2


def test_signals_and_notices_are_kept_apart_for_people(tmp_path: Path) -> None:
    text = "[rank: 0] Received SIGTERM: 15\nslurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    assert [line.line for line in read(log(tmp_path, text)).signalled] == [1, 2]


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    logs = read(log(tmp_path, "".join(f"line {n}\n" for n in range(100))))
    assert [line.text for line in logs.tail][-2:] == ["line 98", "line 99"]
    assert logs.tail[-1].line == 100


def test_an_empty_log_is_readable_and_says_nothing(tmp_path: Path) -> None:
    logs = read(log(tmp_path, ""))
    assert logs.readable
    assert logs.findings == logs.tail == ()


def test_torn_lines_of_two_writers_still_show_their_banner(tmp_path: Path) -> None:
    text = (
        " 45%|####5     | 723/1602 [2:12:45<2:59:53, 12.28s/it][2026-03-25T10:34:07.530] error: *** STEP 1.0 ON g1 "
        "CANCELLED [2026-03-25T10:34:07.531] error: *** JOB 1 ON g1 CANCELLED AT 2026-03-25T10:34:07 DUE TO PREEMPTION ***"
        "\nAT 2026-03-25T10:34:07 DUE TO PREEMPTION ***\n"
    )
    assert {f.cause for f in read(log(tmp_path, text)).findings} == {Cause.PREEMPTION}


def test_the_matcher_is_compiled_once_a_process() -> None:
    assert builtin_matcher() is builtin_matcher()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000), st.booleans())
def test_no_bytes_of_a_log_make_the_reader_fail(content: bytes, since: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(content * 3 + b"\r\n\x1b[31mError: \xff\n" + content)
        logs = read(path, since=datetime(2026, 1, 1, tzinfo=UTC) if since else None, nodes=("n1",))
    assert logs.readable or "no text" in logs.problem


def test_a_log_whose_directory_is_not_there_says_so_and_one_that_is_only_missing_does_not(tmp_path: Path) -> None:
    logs = read_logs([LogFile(str(tmp_path / "a.out")), LogFile(str(tmp_path / "none" / "a.err"))])
    assert not logs.readable
    assert logs.no_directory == (str(tmp_path / "none"),)


@pytest.mark.parametrize(
    "content",
    [
        random.Random(1).randbytes(1 << 20) + OOM.encode(),
        b"\x89PNG\r\n\x1a\n" + OOM.encode(),
        b"train.py".ljust(257, b"\0") + b"ustar\0" + b"\0" * 249 + b"CUDA error: uncorrectable ECC error encountered\n",
        b"PK\x03\x04archive/data.pkl" + OOM.encode(),
        struct.pack("<4096f", *range(4096)) + OOM.encode(),
    ],
    ids=["random bytes", "image", "tar", "checkpoint", "tensor"],
)
def test_what_is_no_text_has_no_cause(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    logs = read_logs([LogFile(str(path))])
    assert (logs.readable, logs.findings) == (False, ())
    assert "no text" in logs.problem


def test_a_hole_and_a_few_foreign_bytes_leave_a_log_a_log(tmp_path: Path) -> None:
    only(read(log(tmp_path, "step 1\n" + "\0" * 9000 + OOM + "\x01\x02\n")), Cause.OOM_GPU)


def test_a_line_of_foreign_bytes_among_others_is_no_cause(tmp_path: Path) -> None:
    garbage = "".join(f"{chr(n % 5 + 1)}CUDA out of memory. Tried to allocate 1 GiB" for n in range(9)).replace(
        "a", "\x01"
    )
    assert read(log(tmp_path, "step 1\n" * 9000 + garbage + "\n")).findings == ()


@pytest.mark.parametrize(
    ("line", "below"),
    [
        ("could not restore a.npz (zipfile.BadZipFile: File is not a zip file), trying the one before", ""),
        ("ERROR on check: minimization did not converge in 1000 iterations; continuing", ""),
        (
            "requests.exceptions.ConnectTimeout: HTTPSConnectionPool: Max retries exceeded",
            "failed, using a blank image",
        ),
        (ECC, "Skipping this batch"),
    ],
)
def test_what_a_program_says_that_it_got_over_is_a_cause_only_for_want_of_one(
    tmp_path: Path, line: str, below: str
) -> None:
    logs = read(log(tmp_path, f"{line}\n{below}\n"))
    assert logs.findings
    assert all(finding.effect and finding.specificity <= 5 for finding in logs.findings)


@pytest.mark.parametrize(
    "line",
    [
        'question: my training dies with "RuntimeError: CUDA error: uncorrectable ECC error encountered"',
        "XFAIL tests/test_nan.py::test_nan - RuntimeError: loss is nan, stopping training",
        '+            raise RuntimeError("CUDA out of memory. Tried to allocate 1.00 GiB")',
        "args: --on-error raise --nan-policy error",
        "Received request 7: prompt: 'what does CUDA out of memory mean?'",
    ],
)
def test_a_text_that_is_shown_is_no_cause(tmp_path: Path, line: str) -> None:
    assert read(log(tmp_path, line + "\n")).findings == ()


def test_what_went_well_below_a_failure_is_counted(tmp_path: Path) -> None:
    text = f"trial 2: {ECC}\nfailed, job done\ntrial 3: ok\nwrote trial-3.json\n"
    assert only(read(log(tmp_path, text)), Cause.HARDWARE_GPU).well == 2


def test_an_exception_that_quotes_is_no_text_that_is_shown(tmp_path: Path) -> None:
    only(read(log(tmp_path, "ValueError: prompt: 'CUDA out of memory'\n")), Cause.OOM_GPU)


def test_information_that_tells_of_no_error_weighs_nothing(tmp_path: Path) -> None:
    logs = read(log(tmp_path, "INFO: known failure modes: disk full, nan loss, No space left on device\n"))
    assert [finding.specificity for finding in logs.findings if finding.specificity] == []
