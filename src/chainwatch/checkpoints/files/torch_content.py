"""What a walked torch pickle says of the tensors and the training state in it."""

from __future__ import annotations

from itertools import islice

from chainwatch.checkpoints.files.pickle_words import Global, Ref, Thing
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

ITEM_BYTES = {
    "FloatStorage": 4,
    "DoubleStorage": 8,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "ByteStorage": 1,
    "CharStorage": 1,
    "ShortStorage": 2,
    "IntStorage": 4,
    "LongStorage": 8,
    "BoolStorage": 1,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
    "QUInt8Storage": 1,
    "QInt8Storage": 1,
    "QInt32Storage": 4,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
    "UntypedStorage": 1,
}
"""Storage class of torch -> bytes of one element. Unknown classes are not judged."""

KEYS = frozenset(
    (
        "dp_world_size",
        "mp_world_size",
        "global_steps",
        "global_step",
        "iteration",
        "ds_version",
        "partition_count",
        "stage",
        "world_size",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "pytorch-lightning_version",
        "step",
        "epoch",
        "num_experts",
        "consumed_train_samples",
        "param_shapes",
    )
)
"""Names of plain values that layouts ask for, wherever in the upper levels of the pickle they are."""

MAX_NODES = 3_000
WIDE = 200
"""Children of one container that are looked at: a model with 10,000 tensors must not use up the nodes."""
MAX_STEPS = 8


class Storage(NamedTuple):
    """One stretch of tensor bytes that the pickle refers to."""

    key: str
    type: str
    location: str
    elements: int

    @property
    def size(self) -> Optional[int]:
        """Its bytes, None where the type is not known."""
        item = ITEM_BYTES.get(self.type)
        return None if item is None else self.elements * item


def storages(refs: List[Any]) -> Dict[str, Storage]:
    """The distinct storages among the persistent ids of a torch pickle."""
    found: Dict[str, Storage] = {}
    for pid in refs:
        if type(pid) is tuple and len(pid) >= 5 and pid[0] == "storage":
            kind, key, location, count = pid[1:5]
            if type(key) is str and type(count) is int and type(kind) is Global:
                found[key] = Storage(key, kind.rpartition(".")[2], location if type(location) is str else "", count)
    return found


def facts(value: Any, number_of: Callable[[Storage, int], Optional[float]]) -> Dict[str, Any]:
    """The plain values of `KEYS`, and `optimizer_steps`: the distinct inner `step` values of the optimizer's state.

    `keys` are the names at the top. Breadth first over a bounded number of nodes, whatever the size of the model.

    Args:
        number_of: reads the one number in a storage, at an offset in elements; None where it cannot.
    """
    found: Dict[str, Any] = {}
    steps: List[float] = []
    for key, each, inside_state in _nodes(value):
        if key == "step" and inside_state:
            number = _number(each, number_of) if len(steps) < MAX_STEPS else None
            if number is not None and number not in steps:
                steps.append(number)
        elif key in KEYS and key not in found:
            if type(each) in (int, str, float, bool):
                found[key] = each
            elif type(each) is list and each and all(type(one) is int for one in each[:64]):
                found[key] = each[:64]
            elif type(each) is list and key == "param_shapes":
                found["layers"] = _layers(each)
            elif type(each) is Thing and key in ("iteration", "step", "global_step", "global_steps"):
                number = _number(each, number_of)
                if number is not None:
                    found[key] = int(number)
    if type(value) is dict:
        found["keys"] = [key for key in islice(value, WIDE) if type(key) is str]
    if steps:
        found["optimizer_steps"] = sorted(steps)
    return found


def _layers(groups: List[Any]) -> List[int]:
    """Numbers of the layers in names such as `3.weight` (modules of a pipeline are numbered), by group of parameters."""
    numbers = set()
    for group in groups:
        for name in islice(group, MAX_NODES) if type(group) is dict else ():
            number = name.partition(".")[0] if type(name) is str else ""
            if number.isdigit() and len(number) < 7:
                numbers.add(int(number))
    return sorted(numbers)


def _nodes(value: Any) -> Iterator[Tuple[object, Any, bool]]:
    """(key, value, whether below a key `state`) breadth first; each container once."""
    seen = set()
    level: List[Tuple[Any, bool]] = [(value, False)]
    budget = MAX_NODES
    while level:
        following: List[Tuple[Any, bool]] = []
        for node, inside in level:
            if id(node) in seen:
                continue
            seen.add(id(node))
            for key, child in _children(node):
                yield key, child, inside
                if type(child) in (dict, list, Thing, tuple):
                    following.append((child, inside or key == "state"))
                budget -= 1
                if budget < 0:
                    return
        level = following


def _children(node: Any) -> Iterator[Tuple[object, Any]]:
    kind = type(node)
    if kind is dict:
        yield from islice(node.items(), WIDE)
        if len(node) > WIDE:
            yield from ((key, node[key]) for key in KEYS if key in node)
    elif kind is list or kind is tuple:
        for child in islice(node, WIDE):
            yield None, child
    elif kind is Thing and not (type(node.func) is Global and node.func.startswith("torch._utils")):
        for child in (node.state, node.items, node.args):
            if type(child) is dict:
                yield from islice(child.items(), WIDE)
            elif type(child) in (list, tuple):
                for each in islice(child, WIDE):
                    yield None, each


def _number(value: Any, number_of: Callable[[Storage, int], Optional[float]]) -> Optional[float]:
    """A number, or a tensor of one element."""
    if type(value) is int or type(value) is float:
        return value
    if type(value) is Thing and type(value.func) is Global and value.func.startswith("torch._utils._rebuild"):
        args = value.args
        if type(args) is tuple and len(args) >= 3 and type(args[0]) is Ref and type(args[1]) is int:
            if args[0].pid.__class__ is tuple:
                found = storages([args[0].pid])
                for storage in found.values():
                    return number_of(storage, args[1])
        elif type(args) is tuple and args and type(args[0]) is Thing:
            return _number(args[0], number_of)
    return None
