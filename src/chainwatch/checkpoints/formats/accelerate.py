"""Hugging Face accelerate `save_state`: `checkpoints/checkpoint_<K>/`, where K counts saves and is no training step.

Order of writing: model, optimizer, scheduler, sampler, each process's random states, custom objects. No mark, no
pointer, no barrier at the end. With DeepSpeed the model is a directory `pytorch_model/` of its files, with FSDP there
are directories of distributed checkpoints.
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look
from chainwatch.checkpoints.formats.dcp import is_dcp, judge_dcp
from chainwatch.checkpoints.formats.hf_trainer import INDICES, WEIGHTS, judge_model, judge_ranks
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Tuple

_NAMED = Template("checkpoint_{}")
_STATES = ("optimizer", "scheduler", "sampler", "dl_state_dict", "custom_checkpoint")
_MODELS = ("model", "pytorch_model")


class Accelerate(Layout):
    """See the module."""

    name = "accelerate"

    def owns(self, folder: Folder) -> bool:
        if any(name.startswith("random_states_") for name in folder.files):
            return True
        if "optimizer.bin" in folder.files and "trainer_state.json" not in folder:
            return any(name in WEIGHTS[:2] or name in INDICES for name in folder.files)
        return self.named(folder.name) and any(
            _is(name, _MODELS, (".safetensors", ".bin")) or _is_state(name) or name in INDICES for name in folder.files
        )

    def named(self, name: str) -> bool:
        return _NAMED.match(name) is not None

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        neighbours = [other.root for other in look.neighbours[:4]]
        inner = [name for name in folder.dirs if _is_inner(folder.sub(name))]
        if not inner:
            judge_model(folder, neighbours, look)
            _judge_first(folder, look)
            more = [{name for name in other.files if _is_more(name)} for other in neighbours if other.files]
            for name in sorted(set.intersection(*more) - set(folder.files)) if more else ():
                look.missing(name, "one more model")
        else:
            for name in folder.files:
                if name in WEIGHTS:
                    look.file(name)
        for name in inner:
            _judge_inner(folder.sub(name), name + "/", look)
        states = [name for name in folder.files if _is_state(name)]
        usual = [{name for name in other.files if _is_state(name)} for other in neighbours if other.files]
        wanted = set.intersection(*usual) if usual else set()
        if not inner and (neighbours == [] or any("optimizer.bin" in other for other in neighbours)):
            wanted.add("optimizer.bin")
        for name in states:
            look.file(name)
        for name in sorted(wanted - set(states)):
            look.missing(name, "what a resume needs")
        judge_ranks(folder, neighbours, "random_states", ".pkl", None, True, look)


def _judge_first(folder: Folder, look: Look) -> None:
    """Objects are numbered from the second on: where there is a second, there was a first."""
    for stem, ending in (
        ("model", "safetensors"),
        ("pytorch_model", "bin"),
        ("optimizer", "bin"),
        ("scheduler", "bin"),
    ):
        first = f"{stem}.{ending}"
        said = any(problem.file == first for problem in look.problems)
        if f"{stem}_1.{ending}" in folder and not said and first not in folder and f"{first}.index.json" not in folder:
            look.missing(first, f"the first one, beside {stem}_1.{ending}")


def _is(name: str, stems: Tuple[str, ...], endings: Tuple[str, ...]) -> bool:
    """True for `<stem><ending>` and `<stem>_<number><ending>`."""
    stem, dot, ending = name.rpartition(".")
    head, _, number = stem.rpartition("_")
    return dot + ending in endings and (stem in stems or (number.isdigit() and head in stems))


def _is_more(name: str) -> bool:
    """A model behind the first one."""
    return _is(name, _MODELS, (".safetensors", ".bin")) and name not in WEIGHTS


def _is_state(name: str) -> bool:
    return name == "scaler.pt" or _is(name, _STATES, (".bin", ".pkl"))


def _is_inner(folder: Folder) -> bool:
    return is_dcp(folder) or any(name.endswith("_states.pt") for name in folder.files) or "latest" in folder


def _judge_inner(folder: Folder, prefix: str, look: Look) -> None:
    from chainwatch.checkpoints.formats.deepspeed import judge_step

    if is_dcp(folder):
        judge_dcp(folder, prefix, look)
        return
    if any(name.endswith("_states.pt") for name in folder.files):
        judge_step(folder, prefix, look)
    else:
        tag = (folder.text("latest", 4096) or "").strip()
        if tag in folder.dirs:
            judge_step(folder.sub(tag), f"{prefix}{tag}/", look)
        else:
            look.problem(prefix + "latest", "pointer", "the name of a directory beside it", f"{tag[:80]!r}")


LAYOUT = Accelerate()
