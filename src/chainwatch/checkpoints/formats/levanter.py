"""levanter (JAX): `step-<N>/` of zarr arrays or an OCDBT database, and `metadata.json`, which is written last.

levanter itself takes a directory for a checkpoint only if `metadata.json` is there ({step, timestamp, is_temporary}).
Its arrays are written by JAX's own serialisation, which leaves out chunks that are all zero.
"""

from __future__ import annotations

from chainwatch.checkpoints.files.jsons import loads
from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.checkpoints.patterns import Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Dict, Optional

MARK = "metadata.json"
MANIFEST = "manifest.ocdbt"
_NAMED = Template("step-{}")
_ARRAYS = ("model", "opt_state", "optimizer", "optimizer_state", "training_state", "training_key", "inner_state")


class Levanter(Layout):
    """See the module."""

    name = "levanter"

    def owns(self, folder: Folder) -> bool:
        if MARK in folder.files:
            said = _metadata(folder)
            if said:
                return "step" in said and "timestamp" in said
        if not _NAMED.match(folder.name) or set(folder.files) - {MANIFEST, MARK}:
            return False
        return any(name in folder.dirs for name in _ARRAYS)

    def candidate(self, run: Folder, name: str, folder: Optional[Folder]) -> Candidate:
        step = _metadata(folder).get("step") if folder is not None else None
        return Candidate(self, run, name, step if isinstance(step, int) and step >= 0 else step_of(name), folder)

    def judge(self, candidate: Candidate, look: Look) -> None:
        from chainwatch.checkpoints.formats.tensorstore import judge_zarr

        look.checksummed = False
        if MARK not in candidate.root.files:
            look.missing(MARK, "the mark of a finished save")
        else:
            look.file(MARK)
        named = step_of(candidate.name) if _NAMED.match(candidate.name) else None
        if named is not None and candidate.step is not None and candidate.step != named:
            look.problem(MARK, "step", f"step {named}, as in the name", f"step {candidate.step}")
        if MANIFEST in candidate.root.files:
            from chainwatch.checkpoints.formats.ocdbt_database import judge_ocdbt

            judge_ocdbt(look, "", False)
        arrays = judge_zarr(look, "", False, skip=("d",))
        if not arrays.grids and MANIFEST not in candidate.root.files and not look.problems:
            look.missing("model", "arrays")
        _as_neighbour(look, candidate)


def _as_neighbour(look: Look, candidate: Candidate) -> None:
    """Directories that the nearest other step has and this one lacks."""
    for other in look.neighbours[:1]:
        for name in other.root.dirs:
            if name not in candidate.root.dirs and MARK in other.root.files:
                look.missing(name, f"a directory, as in {other.name}")


def _metadata(folder: Optional[Folder]) -> Dict[str, Any]:
    said = folder.head(MARK, 65536) if folder is not None and MARK in folder.files else None
    try:
        value = loads(said) if said else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


LAYOUT = Levanter()
