"""What is left where a chain saves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """Free space and inodes of the file system, or of the user's quota on it where that is less."""

    free_bytes: int | None = None
    free_files: int | None = None
    """None where the file system counts none."""
    bounded_by: str = "the disk"
    """`the disk`, or `the quota`."""
    save_bytes: int | None = None
    """Bytes of the largest of the newest checkpoints; None where there is none yet."""
    save_files: int | None = None
