"""What a pickle is read into: plain symbols, and the limits of one pickle.

Names of classes become `Global`, calls become `Thing`, persistent ids become `Ref`; numbers, short strings, tuples,
lists and dictionaries become themselves.
"""

from __future__ import annotations

from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, List

MAX_OPS = 16_000_000
"""Opcodes of one pickle; the index of 32,000 shards has some 3 million."""
MAX_OBJECTS = 3_000_000
"""Containers that one pickle may make, and items that it may put into them (some 60 bytes each)."""
MAX_STACK = 1_000_000
MAX_MEMO = 3_000_000
SHORT = 65_536
"""Strings and bytes above this length are passed over and become `LONG`."""


class Global(str):
    """The dotted name of a class or function."""

    __slots__ = ()


class Ref:
    """A persistent id: for torch the tuple ('storage', type, key, location, number of elements)."""

    __slots__ = ("pid",)

    def __init__(self, pid: object) -> None:
        self.pid = pid


class Thing:
    """What a call or an instance would be: the callee, its arguments, and the state it would be given."""

    __slots__ = ("args", "func", "items", "state")

    def __init__(self, func: object, args: object) -> None:
        self.func = func
        self.args = args
        self.state: Any = None
        self.items: Any = None
        """List or dictionary items that would be added to it; None where there are none."""


class _Long:
    """Stands for a value that was too long to keep."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LONG"


LONG = _Long()

DICTS = frozenset(
    ("collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict", "collections.Counter")
)


class Walked(NamedTuple):
    """One pickle, walked to its STOP."""

    value: Any
    end: int
    """Offset of the first byte after STOP."""
    refs: List[Any]
    """All persistent ids, in order."""


class Key:
    """A dictionary key that is neither a short string nor a small number: kept, compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value
