"""The training step is read from the names that real frameworks give."""

import pytest

from chainwatch.checkpoints.formats.base import step_of


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("global_step30", 30),
        ("iter_0000300", 300),
        ("checkpoint-12", 12),
        ("epoch=1-step=20.ckpt", 20),
        ("epoch=1-step=20-v1.ckpt", 20),
        ("400", 400),
        ("400.orbax-checkpoint-tmp", 400),
        ("model.03.keras", 3),
        ("w.02.weights.h5", 2),
        ("ep2-ba1500-rank0.pt", 1500),
        ("ckpt_000300.pt", 300),
        ("step_100.safetensors", 100),
        ("step100.npz", 100),
        ("compressed_step300.npz", 300),
        ("step-5-val_loss=0.25.ckpt", 5),
        ("weights-003-2.24.weights.h5", 3),
        ("m-003-12.50.keras", 3),
        ("weights.05-0.12.h5", 5),
        ("1.5B-model-20.pt", 20),
        ("run.1.300", 300),
        ("last.ckpt", None),
        ("best", None),
    ],
)
def test_the_step_is_read_from_the_name(name: str, step: int) -> None:
    assert step_of(name) == step
