"""Lines that healthy training prints all day are never a failure, whatever numbers stand in them."""

from __future__ import annotations

import random

import pytest

from chainwatch.signatures import builtin_matcher

LINES = [
    "step: {i} loss: {f} iter time (s): {f} samples/sec: {f}",
    "step: {i} loss: {f} iter time (s): {z} samples/sec: 8.0",
    "[{i}/{i}] loss={f} {i} samples/s, 0 skipped, {i}0 samples done",
    "{{'loss': {f}, 'grad_norm': {f}, 'learning_rate': 0.0, 'epoch': {f}}}",
    " iteration {i}/ {i} | consumed samples: {i}0 | elapsed time per iteration (ms): {f} | number of nan iterations: 0 |",
    "step: {i}  loss: {f}  memory: {f}GiB(40.00%)  tps: {i}  mfu: 0.00%",
    "Epoch 0: 100%|####| {i}/{i} [00:{i}<00:00, {f}it/s, v_num=0, train_loss={f}]",
    "{i}%|###| {i}/{i} [12:00<0:00:00, {f}s/it]",
    "{i}/{i} ━━━━ 3s {i}ms/step - accuracy: {f} - loss: {f} - val_loss: {f}",
    "[Rank 0] 0 errors, {i} warnings, throughput {i} samples/sec",
    "dataloader: {i}0 samples in 0.{i} s",
]


@pytest.mark.parametrize("template", LINES)
def test_a_progress_line_is_no_failure(template: str) -> None:
    chance = random.Random(7)
    matcher = builtin_matcher()
    for _ in range(200):
        numbers = {"i": chance.choice([0, 1, 10, 100, 300, 9000, chance.randrange(10**6)]),
                   "f": f"{chance.random() * 10 ** chance.randrange(-3, 4):.3f}", "z": "0.300"}  # fmt: skip
        line = template.format(**numbers)
        hits = matcher.match(line.encode(), lambda count: ())
        blamed = [h.signature.id for h in hits if not h.signature.effect and h.signature.specificity >= 20]
        assert not blamed, line


PROSE = """\
straggler report: slowdown factor 1.21 on rank 3, 1.02 elsewhere
it is quite normal that an infinite stream never ends
the policy is not set, so the old behaviour is kept
activation checkpointing is on to avoid running out of memory
"""


@pytest.mark.parametrize("line", PROSE.splitlines())
def test_a_sentence_with_a_telling_word_is_no_failure(line: str) -> None:
    hits = builtin_matcher().match(line.encode(), lambda count: ())
    assert not [h.signature.id for h in hits if not h.signature.effect]
