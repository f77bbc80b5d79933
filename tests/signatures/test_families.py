"""The built-in families: each example is found by its own signature, and a healthy log has none."""

from __future__ import annotations

import pytest

from chainwatch.signatures import Signature, builtin_matcher, builtin_signatures
from chainwatch.signatures.literals import required_literals


@pytest.mark.parametrize("signature", [s for s in builtin_signatures() if s.examples], ids=lambda s: s.id)
def test_each_example_is_found_by_its_own_signature(signature: Signature) -> None:
    matcher = builtin_matcher()
    for example in signature.examples:
        line = example.encode()
        context = [b"torch.load checkpoint trainer_state.json resume"] if signature.after else []
        assert matcher.may_match(line), f"no literal of any pattern is in {example!r}"
        assert signature.id in {hit.signature.id for hit in matcher.match(line, lambda n, c=context: c[:n])}


@pytest.mark.parametrize("signature", builtin_signatures(), ids=lambda s: s.id)
def test_every_pattern_has_literal_text_to_look_for(signature: Signature) -> None:
    assert all(required_literals(pattern) for pattern in signature.patterns)


HEALTHY = """\
step 41200 | loss 2.4410 | lr 1.8e-4 | tok/s 51210
{'loss': 0.4127, 'grad_norm': 2.31, 'learning_rate': 4.2e-06, 'epoch': 0.11}
valid_wer 21.1 valid_uer 19.98 mean_absolute_error 0.41 error_rate 0.02
 iteration 51020/ 95367 | lm loss: 2.104E+00 | loss scale: 1.0 | number of skipped iterations: 0 | nan iterations: 0 |
WARNING: could not find failed_requests in the metrics, skipping
0 errors, 0 warnings
INFO retrying in 5 seconds (connection reset by peer)
/env/lib/python3.10/site-packages/torch/utils/checkpoint.py:464: UserWarning: use_reentrant should be passed explicitly.
W0612 08:00:01.114000 3021 site-packages/torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable to 1
[0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation
n1:1:2 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory
slurmstepd: task_p_pre_launch: using affinity
Epoch 10:  93%|#########3| 18625/20000 [5:43:21<25:20,  0.90it/s, v_num=0txx, train_loss=3.400]
The following values were not passed to `accelerate launch` and had defaults used instead
Some weights of the model were not initialized from the model checkpoint and are newly initialized
Loading checkpoint shards: 100%|##########| 4/4 [00:12<00:00,  3.1s/it]
test error: 0.031, train error: 0.012
Saving model checkpoint to /out/checkpoint-500
max_memory_allocated 61.2 GiB out of 80.0 GiB
No preemption so far, preempted_requests=0
"""


@pytest.mark.parametrize("line", HEALTHY.splitlines())
def test_lines_of_a_healthy_run_are_no_cause(line: str) -> None:
    hits = [hit.signature for hit in builtin_matcher().match(line.encode(), lambda _: [])]
    assert not [signature.id for signature in hits if not signature.effect]
