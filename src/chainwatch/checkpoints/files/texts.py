"""JSON and other small texts that frameworks write beside the tensors: a cut one does not parse."""

from __future__ import annotations

from chainwatch.checkpoints.files.base import Broken, Finding, Reader
from chainwatch.checkpoints.files.jsons import Nested, loads

MAX_TEXT = 64 << 20
"""Index files of the largest sharded models are some 10 MB."""


def check(reader: Reader, deep: bool) -> Finding:
    """JSON by name must parse; any other text must not hold NUL bytes (what a lost block reads as).

    `facts["json"]` holds the value of JSON files up to 1 MB; `facts["ends_in_newline"]` tells the last byte.
    """
    if reader.size > MAX_TEXT:
        raise Broken("limit", f"at most {MAX_TEXT:,} bytes", f"{reader.size:,} bytes of text")
    data = reader.read(0, reader.size)
    if b"\0" in data:
        raise Broken("structure", "text", f"NUL bytes at offset {data.index(0):,}")
    if not reader.name.endswith(".json"):
        return Finding("text")
    try:
        value = loads(data)
    except Nested:
        raise Broken("structure", "JSON", "nested without end") from None
    except ValueError:
        raise Broken("truncated", "JSON", "text that ends or breaks off") from None
    facts = {"json": value} if reader.size <= 1 << 20 else {}
    facts["ends_in_newline"] = data.endswith(b"\n")
    return Finding("json", facts=facts)
