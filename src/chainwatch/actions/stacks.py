"""What py-spy showed of a job's ranks, kept in the state directory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from chainwatch.actions import whole


def keep(state: Path, chain: str, job: str, now: datetime, stacks: Mapping[int, str]) -> Path:
    """Write one file a rank; the folder that holds them. Raises OSError."""
    folder = state / "stacks" / chain / f"{job}-{now:%Y%m%dT%H%M%S}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for rank, text in sorted(stacks.items()):
        whole.write(folder / f"rank-{rank}.txt", text.encode("utf-8", "replace"))
    return folder
