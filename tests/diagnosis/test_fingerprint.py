"""One failure has one name, wherever and whenever it happens."""

from __future__ import annotations

from chainwatch.diagnosis import fingerprint, normalise
from chainwatch.model.verdict import Cause


def test_ranks_times_nodes_steps_and_paths_do_not_matter() -> None:
    one = "[rank3]: 2026-01-01 10:00:00,123 RuntimeError: step 400 failed on gpu-07 at 0x7f3 in /scratch/u/run1/a.py"
    two = "[rank11]: 2026-05-05 11:11:11,999 RuntimeError: step 1200 failed on gpu-12 at 0x8aa in /home/v/x/a.py"
    assert normalise(one, ["gpu-07"]) == normalise(two, ["gpu-12"])


def test_another_message_is_another_failure() -> None:
    assert normalise("KeyError: 'loss'") != normalise("KeyError: 'labels'")


def test_the_service_is_kept_of_an_address() -> None:
    hub = "429 Client Error for url: https://huggingface.co/datasets/a/b/1.parquet"
    other_file = "429 Client Error for url: https://huggingface.co/datasets/a/b/2.parquet"
    wandb = "429 Client Error for url: https://api.wandb.ai/graphql"
    assert normalise(hub) == normalise(other_file)
    assert normalise(hub) != normalise(wandb)


def test_the_affected_entity_belongs_to_the_name() -> None:
    line = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus"
    assert fingerprint(Cause.HARDWARE_GPU, line, {"xid": "79"}) != fingerprint(Cause.HARDWARE_GPU, line, {"xid": "95"})
