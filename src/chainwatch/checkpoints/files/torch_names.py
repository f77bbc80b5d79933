"""Which tensor of a torch pickle lies in which storage, and of what type it is; for whoever looks at values."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Set, Tuple

from chainwatch.checkpoints.files.pickle_words import Global, Ref, Thing
from chainwatch.checkpoints.files.torch_content import storages

MAX_NODES = 3_000_000


def named_storages(value: Any, refs: List[Any]) -> Dict[str, Tuple[str, str]]:
    """Storage key -> (name of the first tensor that refers to it, its dtype).

    A name is the path of keys to the tensor, `model.layers.0.weight`. The dtype is the one with which the tensor is
    rebuilt, where that is said (types that have no storage class of their own), else the storage's.
    """
    found: Dict[str, Tuple[str, str]] = {}
    for name, thing in _tensors(value):
        args = thing.args
        if type(args) is not tuple or not args or type(args[0]) is not Ref:
            continue
        for key, storage in storages([args[0].pid]).items():
            if key not in found:
                dtype = storage.type
                if dtype == "UntypedStorage" and len(args) > 6 and type(args[6]) is Global:
                    dtype = args[6].rpartition(".")[2]
                found[key] = (name, dtype)
    for key, storage in storages(refs).items():
        found.setdefault(key, (f"storage {key}", storage.type))
    return found


def _tensors(value: Any) -> Iterator[Tuple[str, Thing]]:
    """(path of keys, call that rebuilds a tensor), each container once."""
    seen: Set[int] = set()
    todo: List[Tuple[str, Any]] = [("", value)]
    while todo and len(seen) < MAX_NODES:
        name, node = todo.pop()
        kind = type(node)
        if kind not in (dict, list, tuple, Thing) or id(node) in seen:
            continue
        seen.add(id(node))
        if kind is Thing:
            if type(node.func) is Global and node.func.startswith("torch._utils._rebuild_tensor"):
                yield name, node
                continue
            todo.extend((name, part) for part in (node.state, node.items, node.args))
        elif kind is dict:
            todo.extend((f"{name}.{key}" if name else str(key), child) for key, child in reversed(list(node.items())))
        else:
            todo.extend((f"{name}.{at}" if name else str(at), child) for at, child in reversed(list(enumerate(node))))
