"""Trackable resources (`cpu=4,mem=50M,gres/gpu:a100=8,gres/gpu=8`) and sizes in memory."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)([KMGTP]?)[nc]?$")


def count(text: str, name: str) -> int | None:
    """How many of one resource; typed entries (`gres/gpu:a100=8`) are counted only where the plain one is missing.

    None where the text does not name the resource at all.
    """
    plain, typed = None, 0
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if not value.isdigit():
            continue
        if key == name:
            plain = int(value)
        elif key.startswith(f"{name}:"):
            typed += int(value)
    return plain if plain is not None else (typed or None)


def parse_size(text: str) -> int | None:
    """Bytes of `39503310K`, `2.25G`, `13392806` (a bare number is bytes: sacct --noconvert). None for nothing."""
    found = _SIZE.match(text.strip())
    return int(float(found[1]) * _UNITS[found[2]]) if found else None
