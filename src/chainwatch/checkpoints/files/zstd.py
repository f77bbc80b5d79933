"""Zstandard frames: walked by their block headers, so that a cut is found without a decoder; decoded where one exists.

Format: RFC 8878. A frame that carries no content checksum (what tensorstore writes) has no end mark either, so the walk
from block to block is the only way to know where it ends.
"""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Union

from chainwatch.checkpoints.files.base import Broken, grouped

MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a skippable frame; byte 0 is 0x50 to 0x5f."""

Read = Callable[[int, int], bytes]
Buffer = Union[bytes, memoryview]


class Frame(NamedTuple):
    """Where one frame ends, and what its header promises."""

    end: int
    content: Optional[int]
    """Bytes when decoded, where the header says it."""
    checksum: bool


def is_frame(head: bytes) -> bool:
    """Do these bytes begin a zstd frame (or a skippable one)?"""
    return head.startswith(MAGIC) or (head[1:4] == SKIPPABLE and 0x50 <= head[0] <= 0x5F)


def walk(read: Read, offset: int, limit: int) -> Frame:
    """The frame that begins at `offset` and must end at or before `limit`.

    Raises:
        Broken: `truncated` where it runs past `limit`, `structure` where the bytes are no frame.
    """
    start = offset
    head = read(offset, min(18, limit - offset))
    if len(head) < 8 or not is_frame(head):
        found = "zeros" if not any(head) else f"0x{head[:4].hex()}"
        raise Broken("structure", f"a zstd frame at byte {grouped(start)}", f"{found} there")
    if not head.startswith(MAGIC):
        end = offset + 8 + int.from_bytes(head[4:8], "little")
        return Frame(_within(end, start, limit), 0, False)
    descriptor = head[4]
    if descriptor & 0x08:
        raise Broken("structure", f"a zstd frame at byte {grouped(start)}", "its reserved bit is set")
    single = descriptor & 0x20
    at = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    if at + width > len(head):
        raise _past(start, limit)
    content = None
    if width:
        content = int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0)
    offset += at + width
    while True:
        if offset + 3 > limit:
            raise _past(start, limit)
        block = int.from_bytes(read(offset, 3), "little")
        kind = (block >> 1) & 3
        if kind == 3:
            raise Broken("structure", f"a zstd block at byte {grouped(offset)}", "a block of reserved type")
        offset = _within(offset + 3 + (1 if kind == 1 else block >> 3), start, limit)
        if block & 1:
            break
    if descriptor & 0x04:
        offset = _within(offset + 4, start, limit)
    return Frame(offset, content, bool(descriptor & 0x04))


def _within(end: int, start: int, limit: int) -> int:
    if end > limit:
        raise _past(start, limit)
    return end


def _past(start: int, limit: int) -> Broken:
    return Broken(
        "truncated", f"the whole zstd frame that begins at byte {grouped(start)}", f"ends at {grouped(limit)}"
    )


def available() -> bool:
    """Is a zstd decoder installed?"""
    try:
        import zstandard  # noqa: F401
    except ImportError:
        return False
    return True


def decode(data: bytes, limit: int) -> Optional[bytes]:
    """The content of one frame, or None where no decoder is installed.

    Raises:
        Broken: the frame does not decode, or to more than `limit` bytes (a bomb).
    """
    if not available():
        return None
    parts = list(stream([data], limit))
    return b"".join(parts)


def stream(blocks: Iterable[Buffer], limit: int) -> Iterator[bytes]:
    """The content of one frame in pieces, from a frame in pieces; a decoder must be installed.

    Raises:
        Broken: the frame does not decode, or to more than `limit` bytes (a bomb).
    """
    import zstandard

    source = _Joined(iter(blocks))
    total = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(source) as reader:  # type: ignore[arg-type]
            while True:
                part = reader.read(1 << 18)
                if not part:
                    return
                total += len(part)
                if total > limit:
                    raise Broken(
                        "limit", f"at most {grouped(limit)} bytes when decoded", "a zstd frame that grows beyond"
                    )
                yield part
    except zstandard.ZstdError as error:
        raise Broken("checksum", "a zstd frame that decodes", str(error)) from None


class _Joined:
    """Blocks as a file that a decoder may read from."""

    def __init__(self, blocks: Iterator[Buffer]) -> None:
        self.blocks = blocks

    def read(self, _size: int = -1) -> bytes:
        return bytes(next(self.blocks, b""))
