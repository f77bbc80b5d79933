"""axlearn (JAX): `step_<8 digits>/` with `index`, a JSON list of [path, {dtype, shape}] that is written last.

Arrays are zarr trees in `gda/`, TensorFlow iterators are bundles in `tf_<process>/` (axlearn/common/checkpointer.py).
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.checkpoints.patterns import Template, number_runs

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import List, Optional, Tuple

INDEX = "index"
ARRAYS = "gda"
_NAMED = Template("step_{}")


def _is_step(name: str) -> bool:
    found = _NAMED.match(name)
    return found is not None and len(found[0]) == 8


def _numbers(text: str) -> Tuple[int, ...]:
    return tuple(int(text[begin:end]) for begin, end in number_runs(text) if end - begin <= 18)


class Axlearn(Layout):
    """See the module."""

    name = "axlearn"

    def owns(self, folder: Folder) -> bool:
        if ARRAYS in folder.dirs and (INDEX in folder.files or _is_step(folder.name)):
            return True
        return _is_step(folder.name) and (INDEX in folder.files or any(name.startswith("tf_") for name in folder.dirs))

    def judge(self, candidate: Candidate, look: Look) -> None:
        from chainwatch.checkpoints.formats.tensorstore import load_json

        look.checksummed = False
        folder = candidate.root
        index = load_json(look, INDEX) if INDEX in folder.files else None
        if INDEX not in folder.files:
            look.missing(INDEX, "the index, which marks a finished save")
        listed = self._listed(look, index, step_of(candidate.name))
        if ARRAYS in folder.dirs:
            self._arrays(look, folder, listed)
        elif listed:
            look.missing(ARRAYS, f"a directory of {len(listed)} arrays")
        for name in folder.dirs:
            if name.startswith("tf_"):
                self._bundles(look, folder.sub(name), name)

    def _listed(self, look: Look, index: object, step: Optional[int]) -> List[Tuple[str, Tuple[int, ...]]]:
        """(path, shape) of every array; the step in the index must be the one in the name."""
        found: List[Tuple[str, Tuple[int, ...]]] = []
        if index is None:
            return found
        if not isinstance(index, list):
            look.problem(INDEX, "structure", "a list of arrays", type(index).__name__)
            return found
        for item in index:
            if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
                continue
            path, value = item
            if path == "step" and isinstance(value, int) and step is not None and value != step:
                look.problem(INDEX, "step", f"step {step}, as in the name", f"step {value}")
            if isinstance(value, dict) and isinstance(value.get("shape"), str):
                found.append((path, _numbers(value["shape"])))
        return found

    def _arrays(self, look: Look, folder: Folder, listed: List[Tuple[str, Tuple[int, ...]]]) -> None:
        from chainwatch.checkpoints.formats.tensorstore import MANIFEST, judge_zarr

        below = folder.sub(ARRAYS)
        if MANIFEST in below.files:
            from chainwatch.checkpoints.formats.ocdbt_database import judge_ocdbt

            judge_ocdbt(look, ARRAYS + "/", False)
            return
        arrays = judge_zarr(look, ARRAYS + "/", False)
        for path, shape in listed:
            grid = arrays.grids.get(path)
            if grid is None:
                if path not in arrays.names:
                    look.missing(f"{ARRAYS}/{path}", f"an array of shape {shape}, as the index says")
            elif grid.shape != shape:
                look.problem(f"{ARRAYS}/{path}", "structure", f"shape {shape}, as the index says", f"{grid.shape}")

    def _bundles(self, look: Look, folder: Folder, where: str) -> None:
        for name in folder.files:
            if name.endswith(".index"):
                from chainwatch.checkpoints.formats.tf import judge_bundle

                judge_bundle(look, f"{where}/{name[: -len('.index')]}")
        for name in folder.dirs:
            self._bundles(look, folder.sub(name), f"{where}/{name}")


LAYOUT = Axlearn()
