"""Which container image a script names."""

from __future__ import annotations

import pytest

from chainwatch.actions.image import container_image

SRUN = "srun --container-image=%s --container-mounts=/data:/data python train.py\n"


@pytest.mark.parametrize(
    ("script", "image"),
    [
        (SRUN % "nvcr.io#nvidia/pytorch:24.01-py3", "nvcr.io#nvidia/pytorch:24.01-py3"),
        (SRUN % "'/images/nemo 25.sqsh'", "/images/nemo 25.sqsh"),
        ("#SBATCH --container-image=/images/a.sqsh\nsrun python train.py\n", "/images/a.sqsh"),
        ("srun \\\n  --container-image /images/a.sqsh \\\n  python train.py\n", "/images/a.sqsh"),
        ("IMAGE=/images/a.sif\nsrun apptainer exec --nv -B /data $IMAGE python x.py\n", "/images/a.sif"),
        ('TAG=24.05\nexport IMAGE="docker://nvcr.io/x:${TAG}"\nsingularity run --nv "$IMAGE" x\n', "docker://nvcr.io/x:24.05"),
        ("singularity exec --nv ${IMAGE:-/images/default.sif} python x.py\n", "/images/default.sif"),
        ("srun shifter --image=docker:org/x:1 python x.py\n", "docker:org/x:1"),
        ("docker run --gpus all --rm ghcr.io/org/train:v3 python x.py\n", "ghcr.io/org/train:v3"),
        ("srun python train.py --config a.yaml\n", ""),
        ("# singularity used to be here\nsrun python train.py\n", ""),
    ],
)  # fmt: skip
def test_the_image_is_found_as_the_script_names_it(script: str, image: str) -> None:
    assert container_image("#!/bin/bash\n" + script) == image


def test_an_option_of_the_chain_wins_over_the_script() -> None:
    assert container_image(SRUN % "/images/a.sqsh", ["--container-image=/images/b.sqsh"]) == "/images/b.sqsh"


def test_variables_of_the_jobs_environment_are_filled_in_and_those_of_nobody_are_left() -> None:
    assert container_image(SRUN % "$IMAGE", environment={"IMAGE": "/images/a.sqsh"}) == "/images/a.sqsh"
    assert container_image(SRUN % "$IMAGE") == "$IMAGE"


def test_nothing_is_executed_to_find_it() -> None:
    assert container_image("IMAGE=$(curl x)\n" + SRUN % "$IMAGE") == "$IMAGE"
