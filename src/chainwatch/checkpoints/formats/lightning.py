"""Lightning and NeMo: `epoch=E-step=S.ckpt` (one torch zip, or a directory of shards), `last.ckpt`, and NeMo's marks.

Lightning writes into $TMPDIR and moves the file: across file systems that is a copy in place, and a kill leaves it cut.
`last.ckpt` is a copy of its own or a link. NeMo touches `<name>-unfinished` beside a checkpoint before it writes and
removes it after a barrier: while it is there the checkpoint is not finished, whatever it looks like.
"""

from __future__ import annotations

import os

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer, step_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterable, Optional

ENDING = ".ckpt"
MARK = "-unfinished"
_NO_STEP = ("last", "hpc_ckpt_")
"""Their numbers count something else: `hpc_ckpt_2.ckpt` is the second that the SLURM plugin saved before a requeue."""
_WEIGHTS = ("weights", "model_weights")


class Lightning(Layout):
    """See the module."""

    name = "lightning"

    def owns(self, folder: Folder) -> bool:
        titled = folder.name.endswith(ENDING) or _has_title(folder.name)
        return (titled and not folder.name.endswith(MARK) and _has_shards(folder)) or (
            titled and "checkpoint" in folder.dirs
        )

    def named(self, name: str) -> bool:
        return name.endswith(ENDING)

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if name.endswith(ENDING) and not name.startswith("."):
                if name in run.links and step_of(name) is None:
                    continue
                yield self.candidate(run, name, None)
        for name in run.dirs:
            if name.endswith(ENDING) and not self.owns(run.sub(name)):
                yield self.candidate(run, name, run.sub(name))

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        counted = name.startswith(_NO_STEP) and not _has_title(name)
        return Candidate(self, run, name, None if counted else step_of(name), folder)

    def pointer(self, run: Folder) -> Optional[Pointer]:
        for name in ("last.ckpt", *run.links):
            if name in run.links and name.endswith(ENDING) and step_of(name) is None:
                try:
                    target = os.readlink(os.path.join(run.path, name))
                except OSError:
                    return None
                inside = os.path.dirname(target) in ("", ".", run.path)
                return Pointer(name, os.path.basename(target) if inside else None, target)
        return None

    def judge(self, candidate: Candidate, look: Look) -> None:
        run = candidate.run
        title = candidate.name[: -len(ENDING)] if candidate.name.endswith((ENDING, ".nemo")) else candidate.name
        for name in {title + MARK, title.replace("-EMA", "") + MARK}:
            if name in run:
                look.uncommitted(name, "no such mark", "the mark of an unfinished save is there")
        folder = candidate.folder
        if folder is None:
            facts = look.file(candidate.name).facts
            inner = facts.get("global_step")
            if type(inner) is int and inner >= 0:
                if look.step is None:
                    look.step = inner
                elif inner != look.step:
                    look.warn(f"its name says step {look.step}, the state in it says {inner}")
        elif _is_dcp(folder):
            from chainwatch.checkpoints.formats.dcp import judge_dcp

            judge_dcp(folder, "", look)
            if folder.name.endswith(ENDING) and "metadata.json" not in folder:
                _judge_meta(folder, look)
            elif "metadata.json" in folder:
                look.file("metadata.json")
        elif any(name in folder.dirs for name in _WEIGHTS):
            from chainwatch.checkpoints.formats.megatron import judge_torch_dist

            for name in _WEIGHTS:
                if name in folder.dirs:
                    judge_torch_dist(folder.sub(name), name + "/", look)
        elif "checkpoint" in folder.dirs:
            _judge_deepspeed(folder, look)
        else:
            look.missing(".metadata", "the index of all shards, which is written last")


def _has_title(name: str) -> bool:
    return "epoch=" in name or "step=" in name


def _is_dcp(folder: Folder) -> bool:
    from chainwatch.checkpoints.formats.dcp import is_dcp

    return is_dcp(folder)


def _has_shards(folder: Folder) -> bool:
    return _is_dcp(folder) or any(name in folder.dirs for name in _WEIGHTS)


def _judge_meta(folder: Folder, look: Look) -> None:
    """Lightning's FSDP strategy keeps everything but the tensors in `meta.pt`."""
    if "meta.pt" in folder:
        facts = look.file("meta.pt").facts
        if look.step is None and type(facts.get("global_step")) is int:
            look.step = facts["global_step"]
    else:
        look.missing("meta.pt", "the state beside the tensors")


def _judge_deepspeed(folder: Folder, look: Look) -> None:
    from chainwatch.checkpoints.formats.deepspeed import judge_step

    tag = (folder.text("latest", 4096) or "checkpoint").strip()
    if tag not in folder.dirs:
        look.problem("latest", "pointer", "the name of a directory beside it", f"{tag[:80]!r}")
        tag = "checkpoint"
    judge_step(folder.sub(tag), tag + "/", look)


LAYOUT = Lightning()
