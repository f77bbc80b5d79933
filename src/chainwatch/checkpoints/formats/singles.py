"""Single files that a script saved by itself: `ckpt_000300.pt`, `step_100.safetensors`.

Not every such file in a run directory is a checkpoint: weights that a run starts from, an exported model, a part of a
larger layout. So below the run directory a name must hold a step or say that it is a checkpoint.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer, step_of
from chainwatch.checkpoints.formats.sharded import shard_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterable, Optional, Tuple

ENDINGS = (".pt", ".pth", ".bin", ".safetensors", ".pth.tar", ".pt.tar")
_PARTS = (
    "training_args", "optimizer.", "scheduler.", "scaler.", "rng_state", "sampler.", "adapter_model", "pytorch_model",
    "tokenizer", "common.", "shard-", "events.", "model.safetensors", "consolidated.",
)  # fmt: skip
"""Files of larger layouts, and exported models: no checkpoints of their own."""
_WORDS = ("ckpt", "checkpoint", "step", "iter", "epoch", "last", "latest", "best", "state", "snapshot", "save")


class Singles(Layout):
    """See the module."""

    name = "torch_zip"

    def named(self, name: str) -> bool:
        return name.endswith(ENDINGS)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if not name.endswith(ENDINGS) or name.startswith(".") or _is_part(name):
                continue
            step = step_of(name)
            if name in run.links and step is None:
                continue
            if step is not None or any(word in name.lower() for word in _WORDS):
                yield Candidate(self, run, name, step)

    def pointer(self, run: Folder) -> Optional[Pointer]:
        for name in run.links:
            if name.endswith(ENDINGS) and step_of(name) is None and name not in run.dirs:
                try:
                    target = os.readlink(os.path.join(run.path, name))
                except OSError:
                    return None
                inside = os.path.dirname(target) in ("", ".", run.path) and target.endswith(ENDINGS)
                return Pointer(name, os.path.basename(target) if inside else None, target)
        return None

    def format_of(self, candidate: Candidate) -> str:
        if candidate.name.endswith(".safetensors"):
            return "safetensors_single"
        for name in (candidate.name, *(each for each in candidate.run.files if each.endswith(ENDINGS))):
            head = candidate.run.head(name, 32) or b""
            if head[:1] == b"\x80":
                return "torch_legacy"
            if head.startswith(b"PK\x03\x04"):
                break
        return "torch_zip"

    def judge(self, candidate: Candidate, look: Look) -> None:
        finding = look.file(candidate.name)
        if finding.ok and finding.kind in ("torch_legacy", "torch_zip"):
            look.format = finding.kind
        inner = _inner_step(finding.facts)
        if look.step is None:
            look.step = inner


def _is_part(name: str) -> bool:
    ranked = "-rank" in name and name.endswith(".pt")
    return name.startswith(_PARTS) or name.endswith("_states.pt") or ranked or shard_of(name) is not None


def _inner_step(facts: Dict[str, object]) -> Optional[int]:
    """The step that the state itself tells under one of its usual names, at the top."""
    keys: Tuple[str, ...] = ("global_step", "global_steps", "iteration", "step")
    top = facts.get("keys")
    for key in keys:
        value = facts.get(key)
        if type(top) is list and key in top and type(value) is int and value >= 0:
            return value
    return None


LAYOUT = Singles()
