"""Hugging Face Trainer: `checkpoint-<step>/`, plain, with DeepSpeed, with FSDP, and of PEFT adapters.

Order of writing: model, (DeepSpeed's or FSDP's directories), training_args.bin, optimizer.pt, scheduler.pt, each rank's
rng state, `trainer_state.json`. There is no mark and no barrier at the end: `trainer_state.json` may be there while
another rank still writes its rng state. `get_last_checkpoint` takes the highest number of any such directory, even of an
empty one. A checkpoint that was saved with `save_only_model` has neither optimizer nor rng: its neighbours tell.
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look
from chainwatch.checkpoints.formats.sharded import expect_newline, judge_index, judge_shards, shard_of
from chainwatch.checkpoints.patterns import Pattern, Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Iterable, List, Optional, Set

_NAMED = Template("checkpoint-{}")
_RNG = Template("rng_state_{}.pth")
_STEP_DIR = Template("global_step{}")
_FSDP_DIRS = (Template("pytorch_model_fsdp_{}"), Template("optimizer_{}"), Template("model_{}"))
_FSDP_RANK = Pattern(r"(.*_fsdp_\d+|optimizer_\d+)_rank(\d+)\.bin$")
_DISTCP = Template("__{}_{}.distcp")
_MORE_MODELS = tuple(
    Template(stem + "_{}" + ending) for stem in ("model", "pytorch_model") for ending in (".safetensors", ".bin")
)

WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "pytorch_model_fsdp.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
)
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
NEEDED = (
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "scaler.pt",
    "trainer_state.json",
    "config.json",
    "adapter_config.json",
    "training_args.bin",
)
"""Files that are looked at where they are there, and that must be there where every neighbour has them."""


class HFTrainer(Layout):
    """See the module."""

    name = "hf_trainer"

    def owns(self, folder: Folder) -> bool:
        if "trainer_state.json" in folder:
            return True
        return self.named(folder.name) and (
            bool(folder.files) or any(_STEP_DIR.match(name) or _is_fsdp(name) for name in folder.dirs)
        )

    def named(self, name: str) -> bool:
        return _NAMED.match(_final(name)) is not None

    def format_of(self, candidate: Candidate) -> str:
        folders = [candidate.folder] if candidate.folder is not None else []
        for folder in (*folders, *(candidate.run.sub(name) for name in candidate.run.dirs if self.named(name))):
            if "adapter_config.json" in folder or any(name.startswith("adapter_model.") for name in folder.files):
                return "peft"
            if any(_STEP_DIR.match(name) for name in folder.dirs):
                return "hf_deepspeed"
            if any(_is_fsdp(name) for name in folder.dirs) or any("_fsdp" in name for name in folder.files):
                return "hf_fsdp"
            if any(name in WEIGHTS or name in INDICES for name in folder.files):
                break
        return self.name

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        named = _NAMED.match(_final(candidate.name))
        if candidate.name.startswith("tmp-"):
            look.uncommitted(candidate.name, "its final name", "it still has its temporary name")
        neighbours = [other.root for other in look.neighbours[:4]]
        judge_model(folder, neighbours, look)
        world = _judge_inner(folder, look)
        needed = _needed(folder, neighbours)
        if "generation_config.json" in folder:
            look.optional("generation_config.json")
        for name in NEEDED:
            if name in folder:
                _judge_needed(name, int(named[0]) if named else None, look)
            elif name in needed:
                look.missing(name, "what a resume needs")
        judge_ranks(folder, neighbours, "rng_state", ".pth", world, bool(needed & {"rng"}), look)


def _final(name: str) -> str:
    """The name without the mark of a save that is not finished (transformers 4.36 to 4.39)."""
    return name[4:] if name.startswith("tmp-") else name


def _is_fsdp(name: str) -> bool:
    return any(each.match(name) for each in _FSDP_DIRS)


def _has_rng(folder: Folder) -> bool:
    return "rng_state.pth" in folder or any(_RNG.match(name) for name in folder.files)


def judge_model(folder: Folder, neighbours: List[Folder], look: Look) -> None:
    """The weights, in whichever of their forms; a form that the neighbours have, where there is none."""
    found = False
    indexed: Set[str] = set()
    for name in folder.files:
        if name in INDICES:
            found = True
            indexed |= judge_index(folder, name, "", look)
        elif name in WEIGHTS or any(each.match(name) for each in _MORE_MODELS):
            found = True
            look.file(name)
    if any(shard_of(name) for name in folder.files) and not any(name in INDICES for name in folder.files):
        found = True
        judge_shards(folder, "", look)
    if "adapter_config.json" in folder and not any(name.startswith("adapter_model.") for name in folder.files):
        found = True
        look.missing("adapter_model.safetensors", "the adapter's weights")
    inner = any(_STEP_DIR.match(name) or _is_fsdp(name) for name in folder.dirs)
    ranked = any("_rank" in name and _FSDP_RANK.match(name) for name in folder.files)
    if not found:
        theirs = [name for other in neighbours for name in other.files if name in WEIGHTS or name in INDICES]
        if theirs or not (inner or ranked):
            look.missing(theirs[0] if theirs else "model.safetensors", "the model's weights")


def _judge_inner(folder: Folder, look: Look) -> Optional[int]:
    """DeepSpeed's and FSDP's directories; returns the number of ranks where they tell."""
    world: Optional[int] = None
    steps = [name for name in folder.dirs if _STEP_DIR.match(name)]
    if steps or "latest" in folder:
        world = _judge_deepspeed(folder, steps, look)
    fsdp = _fsdp_dirs(folder)
    if fsdp:
        from chainwatch.checkpoints.formats.dcp import judge_dcp

        wanted = fsdp | {"optimizer_0"} if any("fsdp" in name for name in fsdp) else fsdp
        if "optimizer.bin" in folder:
            wanted = fsdp
        for name in sorted(wanted):
            if name not in folder:
                look.missing(name, "the optimizer's shards")
                continue
            sub = folder.sub(name)
            judge_dcp(sub, name + "/", look)
            ranks = [int(match[0]) for match in map(_DISTCP.match, sub.files) if match]
            world = max(world or 0, max(ranks, default=-1) + 1) or None
    for stem in {match[1] for match in (_FSDP_RANK.match(name) for name in folder.files if "_rank" in name) if match}:
        judge_ranks(folder, [other.root for other in look.neighbours[:4]], f"{stem}_rank", ".bin", None, True, look, "")
    return world


def _fsdp_dirs(folder: Folder) -> Set[str]:
    named = [name for name in folder.dirs if _is_fsdp(name)]
    if not named:
        return set()
    from chainwatch.checkpoints.formats.dcp import is_dcp

    return {name for name in named if "fsdp" in name or is_dcp(folder.sub(name))}


def _judge_deepspeed(folder: Folder, steps: List[str], look: Look) -> Optional[int]:
    from chainwatch.checkpoints.formats.deepspeed import judge_step, rank_count

    tag = (folder.text("latest", 4096) or "").strip() if "latest" in folder else ""
    if "latest" not in folder:
        look.missing("latest", "the name of the DeepSpeed directory; without it nothing of DeepSpeed is loaded")
    elif not tag.strip("\0"):
        look.problem("latest", "empty", "the name of the DeepSpeed directory", "nothing")
    elif tag not in folder.dirs:
        look.problem("latest", "pointer", "the name of a directory beside it", f"{tag[:80]!r}, which is not there")
    world = None
    for name in [tag] if tag in folder.dirs else steps:
        judge_step(folder.sub(name), name + "/", look)
        world = rank_count(folder.sub(name))
    return world


def _judge_needed(name: str, step: Optional[int], look: Look) -> None:
    finding = look.file(name)
    if name.endswith(".json") and finding.ok:
        expect_newline(name, finding, look)
    if name != "trainer_state.json" or not finding.ok:
        return
    state: Any = finding.facts.get("json")
    inner = state.get("global_step") if type(state) is dict else None
    if type(state) is dict and type(inner) is not int:
        look.problem(name, "structure", "a global_step", "none")
    elif type(inner) is int and step is not None and inner != step:
        look.problem(name, "step", f"global_step {step}, as in the directory's name", f"global_step {inner}")
    elif type(inner) is int and look.step is None:
        look.step = inner


def _needed(folder: Folder, neighbours: List[Folder]) -> Set[str]:
    """What must be there: all of a full save as soon as any of its parts is, and what every neighbour has."""
    has = [name for name in ("optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt") if name in folder]
    rng = _has_rng(folder)
    inner = any(_STEP_DIR.match(name) or _is_fsdp(name) for name in folder.dirs)
    needed = {"trainer_state.json"}
    if has or rng or inner:
        needed.add("rng")
        if not any(_STEP_DIR.match(name) for name in folder.dirs):
            needed.add("scheduler.pt")  # without it the Trainer loads no optimizer either
        if not inner:
            needed.add("optimizer.bin" if "optimizer.bin" in folder else "optimizer.pt")
    if "generation_config.json" in folder:
        needed.add("config.json")
    usual = [set(_kinds(other)) for other in neighbours if "trainer_state.json" in other]
    if usual:
        needed |= set.intersection(*usual)
    if "adapter_config.json" not in needed and any(name.startswith("adapter_model.") for name in folder.files):
        needed.add("adapter_config.json")
    return needed


def _kinds(folder: Folder) -> Iterable[str]:
    yield from (name for name in NEEDED if name in folder)
    if _has_rng(folder):
        yield "rng"


def judge_ranks(
    folder: Folder,
    neighbours: List[Folder],
    stem: str,
    ending: str,
    world: Optional[int],
    needed: bool,
    look: Look,
    joint: str = "_",
) -> None:
    """`<stem>_<rank><ending>` of every rank (or `<stem><ending>` of a single one).

    The number of ranks is `world` where the caller knows it. Else it is at least what the highest rank and a second rank
    say (with one process there is no number in the name), and what all neighbours have, where they agree: a run that was
    resumed on fewer ranks has later neighbours that are like it.
    """
    alone = stem + ending
    ranks = numbers(folder, stem + joint, ending)
    if alone in folder and joint:
        look.file(alone)
        if not ranks:
            return
    if world is None:
        theirs = [max(found) + 1 for found in (numbers(other, stem + joint, ending) for other in neighbours) if found]
        world = max(ranks, default=-1) + 1
        if theirs and len(set(theirs[:2])) == 1 and world not in theirs:
            world = max(world, theirs[0])
        if world == 1 and joint and stem == "rng_state":
            world = 2
    for rank in range(min(world, 1_000_000)):
        name = f"{stem}{joint}{rank}{ending}"
        if rank in ranks:
            look.file(name)
        elif needed or ranks:
            look.missing(name, f"one for each of {world} ranks")
    if not ranks and needed and not world:
        look.missing(alone if joint else f"{stem}0{ending}", "the state of the random number generators")


def numbers(folder: Folder, start: str, ending: str) -> Set[int]:
    """The ranks in names `<start><rank><ending>`."""
    found = set()
    for name in folder.files:
        if name.startswith(start) and name.endswith(ending):
            middle = name[len(start) : len(name) - len(ending)]
            if middle.isdecimal() and len(middle) < 8:
                found.add(int(middle))
    return found


LAYOUT = HFTrainer()
