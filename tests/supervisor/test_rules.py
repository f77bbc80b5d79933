"""What the readers know is refused when the configuration is read, not at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.config import ConfigError, load
from chainwatch.supervisor.rules import RULES


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("checkpoints: {directory: x, format: npzz}",
         "checkpoints.format: no checkpoint format is called 'npzz'; did you mean `npz`?"),
        ("checkpoints: {directory: x, format: custom}", "checkpoints.format: custom needs a rule"),
        ("checkpoints: {directory: x, custom: {checkpoint: 's{step}'}}",
         "checkpoints.custom: is used with `format: custom` only"),
        ("checkpoints: {directory: x, format: custom, custom: {chekpoint: x}}", "checkpoints.custom: "),
        ("logs: {profile: megatrn}", "logs.profile: no progress profile is called 'megatrn'; did you mean `megatron`?"),
        ("logs: {signatures: missing.yaml}", "logs.signatures: cannot be used: "),
        ("sbatch: [--wait]", "sbatch: --wait does not belong here"),
        ("recovery: {fallback_sbatch: ['--wrap=true']}", "recovery.fallback_sbatch: --wrap=true does not belong here"),
        ("sbatch: [-a, 0-7]", "sbatch: --array=0-7 runs 8 tasks side by side"),
        ("recovery: {sbatch: --array=0-7%2}", "recovery.sbatch: --array=0-7%2 runs 2 tasks side by side"),
        ("alerts: [ops]", "alerts: no alert channel is called 'ops'; none is configured"),
    ],
)  # fmt: skip
def test_names_that_nobody_knows_are_refused(tmp_path: Path, body: str, said: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"chains:\n  a:\n    batch: x.sh\n    {body}\n")
    with pytest.raises(ConfigError) as refused:
        load(path, RULES)
    [problem] = refused.value.problems
    assert str(problem).startswith(f"{path}:4: chains.a.{said}")


def test_names_that_are_known_pass(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        """
        alerts: {channels: {ops: {type: slack, url_env: HOOK}}}
        defaults: {batch: x.sh}
        chains:
          a: {checkpoints: {directory: x, format: deepspeed}, logs: {profile: deepspeed}, alerts: [ops]}
          b: {checkpoints: {directory: x, format: custom, custom: {checkpoint: 'step_{step}', files: ['*.bin']}}}
          c: {sbatch: [--no-requeue, -p, gpu]}
        """
    )
    assert len(load(path, RULES).config.chains) == 3
