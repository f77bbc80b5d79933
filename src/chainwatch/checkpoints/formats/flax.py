"""Flax's own checkpoints: one msgpack file a step, `checkpoint_<step>` (legacy `save_checkpoint`) or `*.msgpack`.

The legacy function writes `<prefix>tmp` and renames it; arrays that are spread over processes go to the directory
`<prefix><step>_gda` beside it, as zarr (flax/training/checkpoints.py).
"""

from __future__ import annotations

from chainwatch.checkpoints.formats.base import Candidate, Folder, Layout, Look, step_of
from chainwatch.checkpoints.patterns import Pattern, Template

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Iterable

_NAMED = Template("checkpoint_{}")
_STEPPED = Pattern(r"^[A-Za-z][A-Za-z_-]{0,60}\d{1,18}$")
GDA = "_gda"
MAPS = tuple(bytes((first,)) for first in (*range(0x81, 0x90), 0xDE, 0xDF))


class Flax(Layout):
    """See the module."""

    name = "flax_msgpack"

    def named(self, name: str) -> bool:
        return name.endswith(".msgpack") or _NAMED.match(name) is not None

    def inside(self, run: Folder) -> Iterable[Candidate]:
        for name in run.files:
            if (
                name.endswith(".msgpack")
                or _NAMED.match(name)
                or (name[-1:].isdigit() and _STEPPED.match(name) and _is_map(run, name))
            ):
                yield Candidate(self, run, name, step_of(name))

    def judge(self, candidate: Candidate, look: Look) -> None:
        finding = look.file(candidate.name, "msgpack")
        look.checksummed = False
        step = finding.facts.get("step")
        if isinstance(step, int) and look.step is None:
            look.step = step
        spread = candidate.name + GDA
        if spread in candidate.run.dirs:
            from chainwatch.checkpoints.formats.tensorstore import judge_zarr

            judge_zarr(look, spread + "/", False)
        elif finding.facts.get("spread"):
            look.missing(spread, "the directory of arrays that are spread over processes")


def _is_map(run: Folder, name: str) -> bool:
    return run.head(name, 1) in MAPS


LAYOUT = Flax()
