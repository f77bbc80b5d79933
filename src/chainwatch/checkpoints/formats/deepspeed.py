"""DeepSpeed: ZeRO 0 to 3, bf16, MoE experts, pipeline layers, NVMe offload, and universal checkpoints.

Layout `<run>/<tag>/` with the tag (free text) in `<run>/latest`. Which files a step needs is told by what is inside the
model states: `dp_world_size`, `mp_world_size` and the ZeRO stage. Rank 0 writes `latest` without waiting for the
optimizer files of the other ranks (`TorchCheckpointEngine.commit` is empty), so it proves nothing of them. An engine
loads optimizer files of another step without a word; only the step inside them tells.
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, Pointer, step_of
from chainwatch.checkpoints.formats.deepspeed_names import Names
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Set

    from chainwatch.checkpoints.formats.deepspeed_names import Rank

_NAMED = Template("global_step{}")


class DeepSpeed(Layout):
    """See the module."""

    name = "deepspeed"

    def owns(self, folder: Folder) -> bool:
        return bool(Names(folder.files)) or ("zero" in folder.dirs and folder.name.endswith("_universal"))

    def named(self, name: str) -> bool:
        return _is_step(name)

    def pointer(self, run: Folder) -> Optional[Pointer]:
        text = run.text("latest", 4096) if "latest" in run.files else None
        if text is None:
            return None
        tag = text.strip()
        usable = bool(tag) and tag.isprintable() and "/" not in tag and tag not in (".", "..")
        if usable and (tag in run.dirs or self.named(tag)):
            return Pointer("latest", tag, text)
        return Pointer("latest", None, text) if any(self.named(name) for name in run.dirs) else None

    def judge(self, candidate: Candidate, look: Look) -> None:
        folder = candidate.root
        if "zero" in folder.dirs:
            _judge_universal(folder, look)
        else:
            judge_step(folder, "", look)
        _weigh_pointer(candidate, look)


def _is_step(name: str) -> bool:
    return _NAMED.match(name[: -len("_universal")] if name.endswith("_universal") else name) is not None


def judge_step(folder: Folder, prefix: str, look: Look) -> None:
    """Judge the files of one step; `prefix` is the way from the checkpoint to `folder` (for a Trainer's inner step)."""
    names = Names(folder.files)
    if not names:
        look.missing(prefix + "mp_rank_00_model_states.pt", "model states of rank 0")
        return
    neighbours = _neighbour_names(look, prefix)
    model = {name: look.file(prefix + name).facts for name in (*names.model.values(), *names.zero_model.values())}
    dp, mp, stage = (_common(model.values(), key) for key in ("dp_world_size", "mp_world_size", "stage"))
    width = dp if dp is not None else _width(neighbours)
    optim: Dict[str, Dict[str, Any]] = {}
    extra = 0
    for rank, name in sorted(names.optim.items()):
        if dp is not None and rank[0] >= dp:
            extra += 1
        else:
            optim[name] = look.file(prefix + name).facts
    if dp is None and width is None:
        width = _common(optim.values(), "partition_count")
    for name in names.others:
        look.file(prefix + name)
    world = _expect_model(names, prefix, width, mp or 1, stage, look)
    _expect_optim(names, neighbours, prefix, world, stage, model, look)
    _expect_layers(names, neighbours, prefix, list(model.values()), look)
    _expect_experts(names, neighbours, prefix, list(model.values()), look)
    _expect_one_step(model, optim, prefix, look)
    _expect_offload(folder, prefix, width, look)
    if width is not None:
        look.detail = f"world size {width}" + (f" x {mp}" if mp and mp > 1 else "")
        look.detail += f", {extra} files of a former larger run are passed over" if extra else ""


def _expect_model(
    names: Names, prefix: str, dp: Optional[int], mp: int, stage: Optional[int], look: Look
) -> List[Rank]:
    """The model states of every rank of the world that they name; returns that world."""
    sharded = _is_sharded(names, stage)
    if not sharded and not names.layers and not names.model:
        look.missing(prefix + "mp_rank_00_model_states.pt", "model states of rank 0")
    for rank in range(max(mp, max(names.model, default=0) + 1)):
        if not sharded and names.model and rank not in names.model:
            look.missing(f"{prefix}mp_rank_{rank:02d}_model_states.pt", f"model states of {mp} model-parallel ranks")
    if dp is None:
        dp = max((rank[0] + 1 for rank in (*names.zero_model, *names.optim)), default=1)
    world = [(data, part) for data in range(min(dp, 1_000_000)) for part in range(mp)]
    if sharded:
        for data, part in world:
            if (data, part) not in names.zero_model:
                look.missing(f"{prefix}zero_pp_rank_{data}_mp_rank_{part:02d}_model_states.pt", f"world size {dp}")
    return world


def _is_sharded(names: Names, stage: Optional[int]) -> bool:
    return bool(names.zero_model) or (stage == 3 and not names.model)


def _expect_optim(
    names: Names,
    neighbours: List[Names],
    prefix: str,
    world: List[Rank],
    stage: Optional[int],
    model: Dict[str, Dict[str, Any]],
    look: Look,
) -> None:
    """The optimizer file of every rank, where the optimizer is not inside the model states."""
    inside = any("optimizer_steps" in facts for facts in model.values())
    theirs = any(other.optim for other in neighbours)
    if (
        names.optim
        or _is_sharded(names, stage)
        or (stage or 0) > 0
        or (stage is None and theirs and not inside and not names.expert_optim)
    ):
        before, after = names.optim_name
        dp = world[-1][0] + 1 if world else 0
        for data, part in world:
            if (data, part) not in names.optim:
                look.missing(f"{prefix}{before}{data}_mp_rank_{part:02d}{after}", f"world size {dp}")


def _expect_layers(names: Names, neighbours: List[Names], prefix: str, model: List[Dict[str, Any]], look: Look) -> None:
    """Pipeline layers: every layer whose parameters the model states list, with the same parts, as its neighbours have."""
    have = {(layer, *part) for layer, parts in names.layers.items() for part in parts}
    theirs = [{(layer, *part) for layer, parts in other.layers.items() for part in parts} for other in neighbours]
    piped = bool(names.layers) or (bool(theirs) and bool(theirs[0]))
    listed = {layer for facts in model for layer in facts.get("layers") or ()} if piped else set()
    parts = {entry[1:] for entry in have} or {entry[1:] for entry in (theirs[0] if theirs else ())}
    wanted = {(layer, *part) for layer in {entry[0] for entry in have} | listed for part in parts}
    if theirs and theirs[0] and {entry[1:] for entry in theirs[0]} == parts:
        wanted |= theirs[0]
    for layer, rank in sorted(wanted - have):
        look.missing(f"{prefix}layer_{layer:02d}{rank}-model_states.pt", "every part of every layer")


def _expect_experts(
    names: Names, neighbours: List[Names], prefix: str, model: List[Dict[str, Any]], look: Look
) -> None:
    """Experts of a mixture: as many in each layer as the model states say (`num_experts`), else as the others have."""
    nearest = neighbours[0] if neighbours else None
    whole: Set[Rank] = set().union(*names.experts.values()) if names.experts else set()
    ranks = {rank for _, rank in whole} or {0}
    counts: List[int] = next((facts["num_experts"] for facts in model if type(facts.get("num_experts")) is list), [])
    layers = set(names.experts) | (set(nearest.experts) if nearest else set())
    if not names.layers and -1 not in layers:
        layers |= {layer for layer, count in enumerate(counts) if count > 1}
    last = max((expert for expert, _ in whole), default=-1)
    readable = any(model)
    for layer in sorted(layers):
        stated = counts[layer] if 0 <= layer < len(counts) and not names.layers else max(counts, default=0)
        held = max((expert for expert, _ in names.experts.get(layer, ())), default=-1)
        unstated = (
            last if readable else held
        )  # with states that cannot be read, layers of different widths may be meant
        for expert in range(min(stated, 100_000) or unstated + 1 or 1):
            for rank in sorted(ranks):
                if (expert, rank) not in names.experts.get(layer, ()):
                    start = "" if layer < 0 else f"layer_{layer}_"
                    look.missing(f"{prefix}{start}expert_{expert}_mp_rank_{rank:02d}_model_states.pt", "every expert")
    told = names.expert_optim | (
        nearest.expert_optim if nearest and nearest.optim.keys() == names.optim.keys() else set()
    )
    for group in range(max((group for group, _ in told), default=-1) + 1):
        for rank in sorted({rank for _, rank in told}):
            if (group, rank) not in names.expert_optim:
                look.missing(
                    f"{prefix}expp_rank_{group}_mp_rank_{rank:02d}_optim_states.pt", "every expert-parallel rank"
                )


def _expect_one_step(
    model: Dict[str, Dict[str, Any]], optim: Dict[str, Dict[str, Any]], prefix: str, look: Look
) -> None:
    """All files hold the same step: an engine loads a rank's file of another step without a word."""
    steps = {name: facts["global_steps"] for name, facts in model.items() if type(facts.get("global_steps")) is int}
    _same(steps, "global_steps", prefix, look)
    if steps and len(set(steps.values())) == 1:
        inner = next(iter(steps.values()))
        if look.step is None:
            look.step = inner
        elif inner != look.step and _is_step(look.candidate.name):
            look.warn(f"its name says step {look.step}, its model states say {inner}")
    _same(
        {name: facts["optimizer_steps"][-1] for name, facts in optim.items() if facts.get("optimizer_steps")},
        "optimizer step",
        prefix,
        look,
    )
    counts = {}
    for name, facts in optim.items():
        count = facts.get("partition_count")
        count = max(count) if type(count) is list else count
        if type(count) is int:
            counts[name] = count
    _same(counts, "partition_count", prefix, look)


def _same(values: Dict[str, Any], what: str, prefix: str, look: Look) -> None:
    """A problem for each file whose value differs from that of most others."""
    if len(set(values.values())) < 2:
        return
    numbers = sorted(values.values())
    usual = max(set(numbers), key=lambda value: (numbers.count(value), value))
    for name, value in values.items():
        if value != usual:
            look.problem(prefix + name, "mixed", f"{what} {usual:g}, as in the other files", f"{what} {value:g}")


def _expect_offload(folder: Folder, prefix: str, dp: Optional[int], look: Look) -> None:
    if "offloaded_tensors" not in folder.dirs or dp is None:
        return
    offload = folder.sub("offloaded_tensors")
    for rank in range(dp):
        if f"rank{rank}" not in offload.dirs:
            look.missing(f"{prefix}offloaded_tensors/rank{rank}", f"world size {dp}")
            continue
        for name in offload.sub(f"rank{rank}").files:
            look.file(f"{prefix}offloaded_tensors/rank{rank}/{name}", kind="raw")


def _judge_universal(folder: Folder, look: Look) -> None:
    """`zero/<parameter>/{fp32,exp_avg,exp_avg_sq,step}.pt`, the same for every parameter, and the model states."""
    names = Names(folder.files)
    facts = [look.file(name).facts for name in (*names.model.values(), *names.zero_model.values())]
    for name in names.others:
        look.file(name)
    dp, mp, stage = (_common(facts, key) for key in ("dp_world_size", "mp_world_size", "stage"))
    _expect_model(names, "", dp, mp or 1, None if names.model else stage, look)
    _expect_layers(names, _neighbour_names(look, ""), "", facts, look)
    step = _common(facts, "global_steps")
    look.step = step if look.step is None else look.step
    zero = folder.sub("zero")
    have = {name: set(zero.sub(name).files) for name in zero.dirs if not name.endswith("optimizer_state")}
    usual: Set[str] = set()
    for files in have.values():
        if "fp32.pt" in files:
            usual = usual | files if usual else set(files)
    if not have:
        look.missing("zero", "a directory for each parameter")
    for name, files in have.items():
        for wanted in sorted((usual or {"fp32.pt"}) - files):
            look.missing(f"zero/{name}/{wanted}", "the files that the other parameters have")
        for each in sorted(files):
            if each.endswith(".pt"):
                look.file(f"zero/{name}/{each}")
    for each in zero.files:
        look.file(f"zero/{each}")
    theirs = any("optimizer_state.pt" in other.root.sub("zero").files for other in look.neighbours[:2])
    if "optimizer_state.pt" not in zero.files and ("step.pt" in usual or theirs):
        look.missing("zero/optimizer_state.pt", "what the optimizer holds once for all parameters")


def _weigh_pointer(candidate: Candidate, look: Look) -> None:
    """`latest` names an older step: this one was never committed. (An empty `latest` says nothing of a step.)"""
    pointer = look.run_pointer
    if pointer is None:
        return
    if pointer.target is None:
        said = "empty" if not pointer.said.strip("\0 \n") else "unreadable"
        look.detail += f"; the pointer {pointer.file} is {said}: name this step when you resume"
        return
    if pointer.target == candidate.name or pointer.target not in candidate.run:
        return
    step, named = look.step, step_of(pointer.target)
    if step is not None and named is not None and step > named:
        look.uncommitted(candidate.name, f"{pointer.file} to name it", f"{pointer.file} still names {pointer.target}")


def _neighbour_names(look: Look, prefix: str) -> List[Names]:
    found = []
    for other in look.neighbours[:4]:
        folder = other.root
        if prefix:
            inner = [name for name in folder.dirs if _NAMED.match(name)]
            folder = folder.sub(inner[0]) if inner else folder
        found.append(Names(folder.files))
    return [names for names in found if names]


def rank_count(folder: Folder) -> Optional[int]:
    """Data-parallel ranks of a step, by the names of its files."""
    return _width([Names(folder.files)])


def _width(neighbours: List[Names]) -> Optional[int]:
    for names in neighbours:
        ranks = [rank for rank, _ in (*names.zero_model, *names.optim)]
        if ranks:
            return max(ranks) + 1
    return None


def _common(facts: Iterable[Dict[str, Any]], key: str) -> Optional[int]:
    """The largest whole number that any of the files has under that key."""
    found = []
    for each in facts:
        value = each.get(key)
        value = max(value, default=None) if type(value) is list else value
        if type(value) is int and value >= 0:
            found.append(value)
    return max(found) if found else None


LAYOUT = DeepSpeed()
