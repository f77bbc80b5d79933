"""A pickle read as opcodes: what it would build, as plain symbols, without building it.

No class is looked up, nothing is imported, nothing is called (`pickle_words` has what stands for what). Time and memory
are bounded: opcodes, objects and stack are counted, long strings and numbers are skipped over, and the file is read
through a window, so that a pickle with gigabytes of inline arrays costs no memory.

The opcodes are those of protocols 0 to 5 (`pickletools` in the standard library documents them).
"""

from __future__ import annotations

import gc
import struct

from chainwatch.checkpoints.files.base import Broken, Reader, grouped
from chainwatch.checkpoints.files.opcodes_rare import RareOpcodes, put
from chainwatch.checkpoints.files.pickle_words import (
    DICTS,
    LONG,
    MAX_MEMO,
    MAX_OBJECTS,
    MAX_OPS,
    MAX_STACK,
    SHORT,
    Global,
    Key,
    Ref,
    Thing,
    Walked,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

QUIET = 1 << 19
"""Bytes of a pickle from which on the garbage collector is paused."""

_U16 = struct.Struct("<H").unpack_from
_I32 = struct.Struct("<i").unpack_from
_U32 = struct.Struct("<I").unpack_from
_U64 = struct.Struct("<Q").unpack_from
_F64 = struct.Struct(">d").unpack_from


def walk(
    reader: Reader,
    start: int,
    end: int,
    built: Optional[Callable[[Thing], None]] = None,
    data: Optional[bytes] = None,
) -> Walked:
    """Walk the pickle that starts at `start` and must stop before `end`.

    Args:
        built: called with each thing once its state is set (BUILD); it may shrink it.
        data: the bytes from `start`, where the caller has them already.

    Raises:
        Broken: `truncated` where it runs past `end`, `structure` for what is no pickle, `limit` where it is too large.
    """
    machine = _Machine(reader, start, end, built, data)
    # The collector looks at every container again and again while they are made, and none of them is garbage.
    collecting = end - start > QUIET and gc.isenabled()
    try:
        if collecting:
            gc.disable()
        return machine.run()
    except (IndexError, struct.error):
        if machine.at_end():
            raise Broken("truncated", "a pickle that ends in STOP", f"it ends at {grouped(end)} without STOP") from None
        raise Broken("structure", "a pickle", f"opcodes that take what is not there, near {machine.where()}") from None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise Broken("structure", "a pickle", f"opcodes that make no sense, near {machine.where()}") from None
    finally:
        if collecting:
            gc.enable()


class _Machine(RareOpcodes):
    __slots__ = ("built",)

    def __init__(
        self,
        reader: Reader,
        start: int,
        end: int,
        built: Optional[Callable[[Thing], None]],
        data: Optional[bytes],
    ) -> None:
        super().__init__(reader, start, end, data)
        self.built = built

    def run(self) -> Walked:
        """The loop. One long function on purpose: a call per opcode would cost more than the opcode."""
        buffer, size, safe = self.window()
        i = 0
        stack: List[Any] = []
        push = stack.append
        pop = stack.pop
        marks: List[int] = []
        memo: List[Any] = []  # numbered without gaps by every pickler
        names: Dict[Any, Global] = {}
        refs: List[Any] = []
        built = self.built
        objects = 0
        budget = MAX_OPS
        try:
            while True:
                if len(stack) + len(marks) > MAX_STACK or len(memo) > MAX_MEMO or objects > MAX_OBJECTS or budget <= 0:
                    raise Broken("limit", f"a pickle of at most {grouped(MAX_OPS)} opcodes", "one that is larger")
                budget -= 50_000
                for _ in range(50_000):
                    if i >= safe:
                        buffer, size, safe = self.refill(i, 1)
                        i = 0
                    op = buffer[i]
                    i += 1
                    if op == 0x71:  # BINPUT
                        if buffer[i] == len(memo):
                            memo.append(stack[-1])
                        else:
                            put(memo, buffer[i], stack[-1])
                        i += 1
                    elif op == 0x72:  # LONG_BINPUT
                        index = _U32(buffer, i)[0]
                        if index == len(memo):
                            memo.append(stack[-1])
                        else:
                            put(memo, index, stack[-1])
                        i += 4
                    elif op == 0x94:  # MEMOIZE
                        memo.append(stack[-1])
                    elif op == 0x68:  # BINGET
                        push(memo[buffer[i]])
                        i += 1
                    elif op == 0x4B:  # BININT1
                        push(buffer[i])
                        i += 1
                    elif op == 0x28:  # MARK
                        marks.append(len(stack))
                    elif op == 0x74:  # TUPLE
                        mark = marks.pop()
                        stack[mark:] = [tuple(stack[mark:])]
                        objects += 1
                    elif op == 0x6A:  # LONG_BINGET
                        push(memo[_U32(buffer, i)[0]])
                        i += 4
                    elif op == 0x4A:  # BININT
                        push(_I32(buffer, i)[0])
                        i += 4
                    elif op == 0x4D:  # BININT2
                        push(_U16(buffer, i)[0])
                        i += 2
                    elif op == 0x52:  # REDUCE
                        args = pop()
                        func = stack[-1]
                        objects += 1
                        stack[-1] = {} if type(func) is Global and func in DICTS else Thing(func, args)
                    elif op == 0x51:  # BINPERSID
                        pid = stack[-1]
                        refs.append(pid)
                        stack[-1] = Ref(pid)
                        objects += 1
                    elif op == 0x85:  # TUPLE1
                        stack[-1] = (stack[-1],)
                        objects += 1
                    elif op == 0x86:  # TUPLE2
                        last = pop()
                        stack[-1] = (stack[-1], last)
                        objects += 1
                    elif op == 0x87:  # TUPLE3
                        last = pop()
                        middle = pop()
                        stack[-1] = (stack[-1], middle, last)
                        objects += 1
                    elif op == 0x58 or op == 0x8C or op in _STRINGS:  # strings and bytes with a length before them
                        if op == 0x58 or op == 0x54 or op == 0x42:
                            length = _U32(buffer, i)[0]
                            i += 4
                        elif op == 0x8C or op == 0x55 or op == 0x43:
                            length = buffer[i]
                            i += 1
                        else:
                            length = _U64(buffer, i)[0]
                            i += 8
                        if i + length <= size:
                            raw = buffer[i : i + length] if length <= SHORT else None
                            i += length
                        else:
                            raw, i = self.long_bytes(i, length)
                            buffer, size, safe = self.window()
                        if raw is None:
                            push(LONG)
                        elif op == 0x58 or op == 0x8C or op == 0x8D:
                            push(raw.decode("utf-8", "replace"))
                        elif op == 0x54 or op == 0x55:
                            push(raw.decode("latin-1"))
                        else:
                            push(raw)
                    elif op == 0x89:  # NEWFALSE
                        push(False)
                    elif op == 0x88:  # NEWTRUE
                        push(True)
                    elif op == 0x29:  # EMPTY_TUPLE
                        push(())
                    elif op == 0x4E:  # NONE
                        push(None)
                    elif op == 0x7D:  # EMPTY_DICT
                        objects += 1
                        push({})
                    elif op == 0x5D or op == 0x8F:  # EMPTY_LIST, EMPTY_SET
                        objects += 1
                        push([])
                    elif op == 0x75 or op == 0x64:  # SETITEMS, DICT
                        mark = marks.pop()
                        items = stack[mark:]
                        del stack[mark:]
                        objects += len(items)
                        if op == 0x64:
                            objects += 1
                            push({})
                        target = stack[-1]
                        if type(target) is not dict:
                            if target.items is None:
                                target.items = {}
                            target = target.items
                        for at in range(0, len(items) - 1, 2):
                            key = items[at]
                            kind = type(key)
                            if kind is str or (kind is int and -0x80000000 <= key <= 0x7FFFFFFF):
                                target[key] = items[at + 1]
                            else:
                                target[Key(key)] = items[at + 1]
                    elif op == 0x73:  # SETITEM
                        value = pop()
                        key = pop()
                        target = stack[-1]
                        if type(target) is not dict:
                            if target.items is None:
                                target.items = {}
                            target = target.items
                        kind = type(key)
                        if kind is str or (kind is int and -0x80000000 <= key <= 0x7FFFFFFF):
                            target[key] = value
                        else:
                            target[Key(key)] = value
                    elif op == 0x65 or op == 0x90 or op == 0x6C or op == 0x91:  # APPENDS, ADDITEMS, LIST, FROZENSET
                        mark = marks.pop()
                        items = stack[mark:]
                        del stack[mark:]
                        objects += len(items)
                        if op == 0x6C or op == 0x91:
                            objects += 1
                            push(items)
                        else:
                            target = stack[-1]
                            if type(target) is not list:
                                if target.items is None:
                                    target.items = []
                                target = target.items
                            target.extend(items)
                    elif op == 0x61:  # APPEND
                        value = pop()
                        target = stack[-1]
                        if type(target) is not list:
                            if target.items is None:
                                target.items = []
                            target = target.items
                        target.append(value)
                        objects += 1
                    elif op == 0x62:  # BUILD
                        value = pop()
                        target = stack[-1]
                        if type(target) is Thing:
                            target.state = value
                            if built is not None:
                                built(target)
                    elif op == 0x81:  # NEWOBJ
                        args = pop()
                        func = stack[-1]
                        objects += 1
                        stack[-1] = {} if type(func) is Global and func in DICTS else Thing(func, args)
                    elif op == 0x92:  # NEWOBJ_EX
                        pop()
                        args = pop()
                        objects += 1
                        stack[-1] = Thing(stack[-1], args)
                    elif op == 0x63:  # GLOBAL
                        module, i = self.line(i)
                        name, i = self.line(i)
                        if self.buffer is not buffer:
                            buffer, size, safe = self.window()
                        both = (module, name)
                        if both not in names:
                            names[both] = Global(
                                f"{module.decode('utf-8', 'replace')}.{name.decode('utf-8', 'replace')}"
                            )
                        push(names[both])
                    elif op == 0x93:  # STACK_GLOBAL
                        last = pop()
                        first = stack[-1]
                        if type(first) is not str or type(last) is not str:
                            raise ValueError
                        if (first, last) not in names:
                            names[first, last] = Global(f"{first}.{last}")
                        stack[-1] = names[first, last]
                    elif op == 0x2E:  # STOP
                        return Walked(pop(), self.base + i, refs)
                    elif op == 0x8A:  # LONG1
                        length = buffer[i]
                        i += 1
                        if i + length > size:
                            raw, i = self.long_bytes(i, length)
                            buffer, size, safe = self.window()
                            push(int.from_bytes(raw or b"", "little", signed=True))
                        else:
                            push(int.from_bytes(buffer[i : i + length], "little", signed=True))
                            i += length
                    elif op == 0x47:  # BINFLOAT
                        push(_F64(buffer, i)[0])
                        i += 8
                    elif op == 0x95:  # FRAME
                        if _U64(buffer, i)[0] > self.end - self.base - i - 8:
                            i = 0
                            self.run_out()
                        i += 8
                    elif op == 0x80:  # PROTO
                        if buffer[i] > 5:
                            raise ValueError
                        i += 1
                    elif op == 0x30:  # POP
                        if marks and marks[-1] == len(stack):
                            marks.pop()
                        else:
                            pop()
                    else:
                        i, made = self.rare(op, i, stack, marks, memo, refs)
                        objects += made
                        if self.buffer is not buffer:
                            buffer, size, safe = self.window()
        finally:
            self.i = i


_STRINGS = frozenset((0x54, 0x55, 0x42, 0x43, 0x8D, 0x8E, 0x96))
"""BINSTRING, SHORT_BINSTRING, BINBYTES, SHORT_BINBYTES, BINUNICODE8, BINBYTES8, BYTEARRAY8."""
