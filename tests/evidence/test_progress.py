# ruff: noqa: E501 - rows of tables and lines of logs stay whole
"""Steps as the frameworks print them."""

from __future__ import annotations

import math

import pytest

from chainwatch.evidence import ProgressReader

LINES = [
    ("megatron", " iteration    51020/   95367 | consumed samples:    104488960 | lm loss: 2.104E+00 | loss scale: 1.0 |", 51020, 95367, 2.104),
    ("hf_trainer", " 45%|####5     | 723/1602 [2:12:45<2:59:53, 12.28s/it]", 723, 1602, None),
    ("deepspeed", "[2024-01-01 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=110, skipped=0, lr=[1e-05]", 110, None, None),
    ("lightning", "Epoch 10:  93%|#########3| 18625/20000 [5:43:21<25:20,  0.90it/s, v_num=0, train_loss=3.400]", 18625, 20000, 3.4),
    ("torchtitan", "[rank0]:2024-10-29 15:02:11,870 - root - INFO - step:  1200  loss: 12.2501  memory: 78.90GiB(99.61%)", 1200, None, 12.2501),
    ("nanotron", "iteration: 5 / 100 | consumed_tokens: 1.3M | elapsed_time_per_iteration_ms: 1.2K | lm_loss: 11.3 |", 5, 100, 11.3),
    ("nemo", "Training epoch 0, iteration 99/999 | lr: 1e-05 | global_batch_size: 512 | global_step: 99 | reduced_train_loss: 9.1", 99, None, 9.1),
    ("accelerate", "Steps:  10%|#         | 100/1000 [00:10<01:30, 10.0it/s, lr=1e-5, step_loss=0.123]", 100, 1000, 0.123),
    ("fairseq", '2021-01-05 | INFO | valid | {"epoch": 30, "valid_num_updates": "922", "num_updates": "922"}', 922, None, None),
    ("keras", " 120/782 [===>..........................] - ETA: 10s - loss: 1.5", 120, 782, None),
    ("generic", "step 41200 | loss 2.4410 | lr 1.8e-4 | tok/s 51210", 41200, None, 2.441),
    ("generic", "Epoch: [0][120/2502]  loss 6.7712", 120, 2502, 6.7712),
    ("generic", "iter 83593: loss 2.6294, time: 6669.64ms", 83593, None, 2.6294),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "line", "step", "total", "loss"), LINES, ids=[row[0] for row in LINES])
def test_a_profile_reads_its_frameworks_line(
    profile: str, line: str, step: int, total: int | None, loss: float | None
) -> None:
    for reader in (ProgressReader(profile), ProgressReader("auto")):
        reached = reader.read(line.encode())
        assert reached is not None
        assert reached.step == step
    reached = ProgressReader(profile).read(line.encode())
    assert reached is not None
    assert (reached.total, reached.loss) == (total, loss)


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: *** STEP 551822.0 ON gpu1101 CANCELLED AT 2024-06-02T08:00:14 DUE TO TIME LIMIT ***",
        "srun: Terminating StepId=99120.0",
        "NCCL version 2.20.5+cuda12.4",
        "epoch 3 begins",
        "",
    ],
)
def test_other_numbers_are_no_steps(line: str) -> None:
    assert ProgressReader().read(line.encode()) is None


def test_the_newest_step_is_that_of_the_last_line_which_tells_one() -> None:
    text = b"step 1 loss 2\n" * 5000 + b"step 9 loss 1\n" + b"nothing here\n" * 3000
    newest = ProgressReader().newest(text)
    assert newest is not None
    assert newest.step == 9


def test_the_users_own_pattern_is_read() -> None:
    reader = ProgressReader(pattern=r"done (?P<step>\d+) of (?P<total>\d+), cost (?P<loss>[\d.]+)")
    reached = reader.read(b"done 12 of 40, cost 0.5")
    assert reached is not None
    assert (reached.step, reached.total, reached.loss) == (12, 40, 0.5)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [(r"(?P<stop>\d+)", "named group"), (r"(?P<step>\d+", "not valid RE2"), (r"(?=x)(?P<step>\d+)", "not valid RE2")],
)
def test_a_wrong_pattern_is_refused_with_a_sentence(pattern: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ProgressReader(pattern=pattern)


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="megatron"):
        ProgressReader("megatrn")


@pytest.mark.parametrize(
    ("reader", "line", "tokens"),
    [
        (ProgressReader(), b"iteration: 5 / 100 | consumed_tokens: 1.3M | x: 1 | lm_loss: 11.3 |", 1_300_000),
        (ProgressReader(pattern=r"step (?P<step>\d+) seen (?P<tokens>\S+)"), b"step 7 seen 2,048,000", 2_048_000),
        (ProgressReader(pattern=r"step (?P<step>\d+) seen (?P<tokens>\S+)"), b"step 7 seen 2.5B", 2_500_000_000),
        (ProgressReader(pattern=r"step (?P<step>\d+) seen (?P<tokens>\S+)"), b"step 7 seen many", None),
        (ProgressReader(), b'{"step": 12, "loss": 2.5, "lr": 0.1}', None),
    ],
)
def test_tokens_are_read_where_the_line_tells_them(reader: ProgressReader, line: bytes, tokens: int | None) -> None:
    reached = reader.read(line)
    assert reached is not None
    assert reached.tokens == tokens


@pytest.mark.parametrize(
    "line",
    [
        b"steps: 5 loss: nan iter time (s): 0.1",
        b'{"step": 5, "loss": NaN}',
        b" iteration        5/     100 | consumed samples: 1 | lm loss: NAN | loss scale: 1.0 |",
        b"step:  5  loss:  nan  grad_norm: nan",
        b"iteration: 5 / 100 | consumed_tokens: 1M | lm_loss: nan |",
        b"{'loss': nan, 'grad_norm': nan, 'step': 5}",
        b"Epoch 1:   5%|x | 5/100 [00:01<00:02, 3.1it/s, train_loss=nan]",
        b"Step 5/100 loss=inf",
        b"global_step: 5, loss: -Infinity",
    ],
)
def test_a_loss_that_is_lost_is_noticed_whoever_prints_it(line: bytes) -> None:
    reached = ProgressReader().read(line)
    assert reached is not None
    assert (reached.step, reached.loss is not None and not math.isfinite(reached.loss)) == (5, True)


def test_words_that_only_begin_like_one_are_no_loss() -> None:
    reached = ProgressReader().read(b"step 5 loss: information follows")
    assert reached is not None
    assert reached.loss is None


def test_of_two_patterns_that_read_a_bar_the_one_that_tells_the_loss_is_believed() -> None:
    reached = ProgressReader().read(b"Epoch 1:   5%|x | 5/100 [00:01<00:02, 3.1it/s, train_loss=0.25]")
    assert reached is not None
    assert (reached.step, reached.total, reached.loss) == (5, 100, 0.25)


@pytest.mark.parametrize(
    "line",
    [
        b"/var/spool/slurmd/job00011/slurm_script: line 3: 23441 Killed      srun python train.py --steps=80000 --lr=1",
        b"job.sh: line 9: 311 Terminated   python train.py --train-step 80000",
        b"+ srun python train.py --global-step 80000",
        b"Namespace(batch_size=8, steps=80000, lr=0.1)",
        b"steps: 80000",
        b"  'steps': 80000,",
        b"max-step: 80000",
        b"arguments: {'step': 80000}",
        b"save every 500 steps, 80000 in all",
    ],
)
def test_what_a_run_was_asked_for_is_no_step_that_it_reached(line: bytes) -> None:
    """A killed command that is printed with its options must never prove that the chain is done."""
    assert ProgressReader().read(line) is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b"steps: 5 of 80, loss 2.5", 5),
        (b"steps 5/80", 5),
        (b"updates: 5 loss: 2.5", 5),
        (b"[trainer] step 5 loss 2.5", 5),
        (b"(step=5) loss=2.5", 5),
        (b"Training Step: 5", 5),
        (b"step: 5 -- loss: 0.3", 5),
    ],
)
def test_a_step_in_plain_words_is_read(line: bytes, step: int) -> None:
    reached = ProgressReader().read(line)
    assert reached is not None
    assert reached.step == step
