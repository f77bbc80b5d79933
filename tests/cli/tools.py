"""Stand-ins of Slurm's tools before which a command is typed: an empty queue, and an sbatch that takes or refuses."""

from __future__ import annotations

import sys
from pathlib import Path

from chainwatch.slurm.squeue import _FIELDS
from chainwatch.store import open_store
from tests.store.build import record

TAKES = "echo 4711"
_SQUEUE = """#!{python}
import re, sys
fmt = next(w for w in sys.argv if w.startswith("--Format="))
print(re.search(r"JobID:([^,]+)", fmt)[1].join({heads!r}) + fmt.rpartition(":")[2])
"""


def state_of_one_chain(folder: Path) -> None:
    """A state directory `folder/state` with the chain llama."""
    store = open_store(folder / "state")
    store.add_chain(record("llama"))
    store.close()


def tools(folder: Path, sbatch: str = TAKES) -> Path:
    """The tools in `folder/bin`, which is to stand first in PATH. `sbatch`: what it does, as a shell says it."""
    found = folder / "bin"
    found.mkdir(exist_ok=True)
    scripts = {
        "sbatch": f"#!/bin/sh\n{sbatch}\n",
        "scontrol": "#!/bin/sh\necho 'ClusterName = alpha'; echo 'SLURM_VERSION = 24.11.5'\n",
        "squeue": _SQUEUE.format(python=sys.executable, heads=[head for _, head in _FIELDS]),
        "sacct": "#!/bin/sh\n",
    }
    for name, text in scripts.items():
        (found / name).write_text(text)
        (found / name).chmod(0o755)
    return found
