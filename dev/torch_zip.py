"""Files as torch.save writes them, without torch: a zip of stored records around a pickle that names storages.

Python 3.8 and the standard library are enough. `torch.load(path, weights_only=True)` reads the result. A file is written
in place and front to back, with the central directory last: a writer that is killed leaves a file without an end, as
torch does.
"""

import os
import random
import struct
import time
import zlib
from array import array
from collections import OrderedDict

ALIGNMENT = 64
"""Each record's bytes begin at a multiple of this."""
BLOCK = 1 << 16

STORED, FLAGS = 0, 0x0808
"""Method; flags: sizes follow the data in a descriptor, names are UTF-8."""


class Tensor:
    """A one-dimensional tensor of `count` elements with made-up values; `kind` is torch's storage class."""

    WIDTHS = {"FloatStorage": 4, "BFloat16Storage": 2}  # noqa: RUF012 - ClassVar is of no use here

    def __init__(self, count, kind="FloatStorage"):
        self.count, self.kind = count, kind
        self.size = count * self.WIDTHS[kind]


def save(content, path, seconds=0.0):
    """Write `content` (dicts, lists, numbers, texts, None and `Tensor`) to `path`, taking about `seconds` for it."""
    tensors = []
    described = b"\x80\x02" + pickled(content, tensors) + b"."
    stem = os.path.splitext(os.path.basename(path))[0]
    pace = seconds / max(1, sum(tensor.size for tensor in tensors))
    with open(path, "wb") as out:
        archive = Archive(out, stem)
        archive.add("data.pkl", [described])
        archive.add(".format_version", [b"1"])
        archive.add(".storage_alignment", [b"%d" % ALIGNMENT])
        archive.add("byteorder", [b"little"])
        for key, tensor in enumerate(tensors):
            archive.add("data/%d" % key, values(tensor, pace))
        archive.add("version", [b"3\n"])
        archive.add(".data/serialization_id", [b"%040d" % zlib.crc32(described)])
        archive.finish()


def is_whole(path):
    """The file is there and has the end that a zip archive must have."""
    try:
        with open(path, "rb") as stored:
            stored.seek(max(0, os.path.getsize(path) - 22))
            return stored.read(4) == b"PK\x05\x06"
    except OSError:
        return False


def values(tensor, seconds_per_byte):
    """The tensor's bytes, small numbers, in blocks, each after the time that it is said to take."""
    few = array("f", [random.gauss(0, 0.02) for _ in range(1024)]).tobytes()
    if tensor.kind == "BFloat16Storage":
        few = b"".join(few[at + 2 : at + 4] for at in range(0, len(few), 4))
    block, left = few * (BLOCK // len(few)), tensor.size
    while left:
        piece = block[: min(left, BLOCK)]
        time.sleep(len(piece) * seconds_per_byte)
        left -= len(piece)
        yield piece


def pickled(item, tensors):
    """Opcodes of pickle's protocol 2 that push `item`. Tensors are appended to `tensors`, their index is their key."""
    if item is None:
        return b"N"
    if isinstance(item, bool):
        return b"\x88" if item else b"\x89"
    if isinstance(item, int):
        size = item.bit_length() // 8 + 1
        return b"\x8a" + struct.pack("<B", size) + item.to_bytes(size, "little", signed=True)
    if isinstance(item, float):
        return b"G" + struct.pack(">d", item)
    if isinstance(item, str):
        return b"X" + struct.pack("<I", len(item.encode())) + item.encode()
    if isinstance(item, (list, tuple)):
        inner = b"".join(pickled(each, tensors) for each in item)
        return b"](" + inner + b"e" if isinstance(item, list) else b"(" + inner + b"t"
    if isinstance(item, dict):
        empty = b"ccollections\nOrderedDict\n)R" if isinstance(item, OrderedDict) else b"}"
        inner = b"".join(pickled(key, tensors) + pickled(value, tensors) for key, value in item.items())
        return empty + b"(" + inner + b"u"
    if isinstance(item, Tensor):
        key = str(len(tensors))
        tensors.append(item)
        storage = (
            b"("
            + pickled("storage", tensors)
            + b"ctorch\n%s\n" % item.kind.encode()
            + pickled(key, tensors)
            + pickled("cpu", tensors)
            + pickled(item.count, tensors)
            + b"tQ"
        )
        shape = pickled((0, (item.count,), (1,), False, OrderedDict()), tensors)[1:]
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + shape + b"R"
    raise TypeError("cannot be saved: %r" % (item,))


class Archive:
    """A zip archive in the making, as torch's PyTorchStreamWriter lays it out (zip64 end always there)."""

    def __init__(self, out, stem):
        self.out, self.stem = out, stem
        self.entries = []

    def add(self, name, pieces):
        """One stored record, its sizes in a descriptor behind it."""
        encoded = ("%s/%s" % (self.stem, name)).encode()
        offset = self.out.tell()
        padding = -(offset + 30 + len(encoded) + 4) % ALIGNMENT
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        header = (b"PK\x03\x04", 0, FLAGS, STORED, 0, 0, 0, 0, 0, len(encoded), len(extra))
        self.out.write(struct.pack("<4s5H3I2H", *header) + encoded + extra)
        size = crc = 0
        for piece in pieces:
            self.out.write(piece)
            self.out.flush()
            size, crc = size + len(piece), zlib.crc32(piece, crc)
        self.out.write(struct.pack("<4s3I", b"PK\x07\x08", crc, size, size))
        entry = (b"PK\x01\x02", 0, 0, FLAGS, STORED, 0, 0, crc, size, size, len(encoded), 0, 0, 0, 0, 0, offset)
        self.entries.append(struct.pack("<4s6H3I5H2I", *entry) + encoded)

    def finish(self):
        """The central directory and both ends; only now is it an archive."""
        start, directory, count = self.out.tell(), b"".join(self.entries), len(self.entries)
        end = start + len(directory)
        self.out.write(directory)
        self.out.write(
            struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 30, 45, 0, 0, count, count, len(directory), start)
            + struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
            + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(directory), start, 0)
        )
