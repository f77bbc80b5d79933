"""Opcodes that today's picklers seldom or never write: those of protocol 0, extensions, odd moves of the stack."""

from __future__ import annotations

import struct

from chainwatch.checkpoints.files.base import Broken, grouped
from chainwatch.checkpoints.files.pickle_window import Window
from chainwatch.checkpoints.files.pickle_words import LONG, MAX_MEMO, Global, Ref, Thing

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, List, Tuple

_I32 = struct.Struct("<i").unpack_from

_LINES = frozenset((0x49, 0x4C, 0x46, 0x53, 0x56, 0x70, 0x67, 0x50, 0x69))
"""INT, LONG, FLOAT, STRING, UNICODE, PUT, GET, PERSID, INST."""
_EXTENSIONS = {0x82: 1, 0x83: 2, 0x84: 4, 0x97: 0}
"""EXT1, EXT2, EXT4, NEXT_BUFFER: what they stand for is not in the file. Bytes behind each."""


class RareOpcodes(Window):
    """A window, and what the loop of `opcodes` leaves to it."""

    __slots__ = ()

    def rare(
        self, op: int, i: int, stack: List[Any], marks: List[int], memo: List[Any], refs: List[Any]
    ) -> Tuple[int, int]:
        """Carry out one of them: (position after it, objects made). May move the window; `ValueError` for any other."""
        push = stack.append
        if op in _LINES:  # protocol 0: one or two lines of text
            text, i = self.line(i)
            if op == 0x70:  # PUT
                put(memo, int(text[:20]), stack[-1])
            elif op == 0x67:  # GET
                push(memo[abs(int(text[:20]))])
            elif op == 0x50:  # PERSID
                refs.append(text.decode("latin-1"))
                push(Ref(refs[-1]))
            elif op == 0x69:  # INST
                name, i = self.line(i)
                args = tuple(_from_mark(stack, marks))
                push(Thing(Global(f"{text.decode('latin-1')}.{name.decode('latin-1')}"), args))
                return i, 1
            elif op == 0x49 or op == 0x4C:  # INT, LONG
                push(int(text.rstrip(b"L")) if len(text) < 400 else LONG)
            elif op == 0x46:  # FLOAT
                push(float(text))
            else:  # STRING, UNICODE
                push(text.decode("latin-1"))
        elif op == 0x6F:  # OBJ
            items = _from_mark(stack, marks)
            push(Thing(items[0], tuple(items[1:])))
            return i, len(items) + 1
        elif op == 0x8B:  # LONG4
            length = _I32(self.buffer, i)[0]
            if length < 0:
                raise ValueError
            raw, i = self.long_bytes(i + 4, length)
            push(LONG if raw is None or length > 1024 else int.from_bytes(raw, "little", signed=True))
        elif op in _EXTENSIONS:
            push(LONG)
            i += _EXTENSIONS[op]
        elif op == 0x31:  # POP_MARK
            del stack[marks.pop() :]
        elif op == 0x32:  # DUP
            push(stack[-1])
        elif op != 0x98:  # READONLY_BUFFER changes nothing
            raise ValueError
        return i, 0


def _from_mark(stack: List[Any], marks: List[int]) -> List[Any]:
    """Takes from the stack what lies above the last mark."""
    mark = marks.pop()
    items = stack[mark:]
    del stack[mark:]
    return items


def put(memo: List[Any], index: int, value: Any) -> None:
    """Set an entry out of order."""
    if not 0 <= index <= MAX_MEMO:
        raise Broken("limit", f"a pickle of at most {grouped(MAX_MEMO)} memos", "one with more")
    if index >= len(memo):
        memo.extend([None] * (index + 1 - len(memo)))
    memo[index] = value
