"""The layouts of the frameworks: a table of names, each loaded only where the names in a directory call for it."""

from __future__ import annotations

from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Dict, Iterator, Optional, Tuple

    from chainwatch.checkpoints.formats.base import Folder, Layout


__all__ = ["FORMATS", "layout", "layouts_for", "single_files"]


class Entry(NamedTuple):
    """One layout: where it is, and which substrings of names in a directory make it worth loading."""

    formats: Tuple[str, ...]
    """Format names that it serves."""
    module: str
    hints: Tuple[str, ...]
    """Substrings of the names of the directory and all that is in it, each on its own line, directories ending in /."""


TABLE: Tuple[Entry, ...] = (
    Entry(("hf_trainer", "hf_deepspeed", "hf_fsdp", "peft"), "hf_trainer", ("checkpoint-", "\ntrainer_state.json\n")),
    Entry(("accelerate",), "accelerate", ("checkpoint_", "\nrandom_states_", "\noptimizer.bin\n")),
    Entry(
        ("deepspeed",),
        "deepspeed",
        ("_states.pt\n", "\nglobal_step", "optim_states.pt\n", "\nlatest\n", "_universal/\n"),
    ),
    Entry(("megatron",), "megatron", ("\niter_", "mp_rank_", "\ncommon.pt\n", "\nlatest_checkpointed_iteration.txt\n")),
    Entry(("lightning",), "lightning", (".ckpt\n", ".ckpt/\n", "-unfinished\n")),
    Entry(("dcp",), "dcp", ("\n.metadata\n", ".distcp\n", "\nshard-", "\nsharded/\n", "\nstep-")),
    Entry(("levanter",), "levanter", ("step-", "\nmetadata.json\n")),
    Entry(("axlearn",), "axlearn", ("\nindex\n", "step_")),
    Entry(("nanotron",), "nanotron", ("\ncheckpoint_metadata.json\n", "\nmodel/\n", "\nlatest.txt\n")),
    Entry(
        ("orbax",),
        "orbax",
        (
            "\n_CHECKPOINT_METADATA\n",
            ".orbax-checkpoint-tmp",
            "\n_METADATA\n",
            "\nmanifest.ocdbt\n",
            "\ncommit_success.txt\n",
        ),
    ),
    Entry(("tf",), "tf", (".index\n", ".data-00", "_temp/\n", "\ncheckpoint\n")),
    Entry(("composer",), "composer", ("-rank",)),
    Entry(("keras",), "keras", (".keras\n", ".weights.h5\n", ".weights.json\n", "\ntraining_metadata.json\n")),
    Entry(("npz",), "npz", (".npz\n", ".npy\n")),
    Entry(("hdf5",), "hdf5", (".h5\n", ".hdf5\n", ".he5\n")),
    Entry(
        ("torch_zip", "torch_legacy", "safetensors_single"),
        "singles",
        (".pt\n", ".pth\n", ".bin\n", ".safetensors\n", ".tar\n"),
    ),
    Entry(("flax_msgpack",), "flax", (".msgpack\n", *(f"{digit}\n" for digit in range(10)))),
)
"""In order of precedence: the first layout that owns a directory gets it."""

FORMATS: Tuple[str, ...] = tuple(name for entry in TABLE for name in entry.formats)
"""Every name that `--format` takes."""

_loaded: Dict[str, Layout] = {}


def layout(entry: Entry) -> Layout:
    """The one instance of a layout, loaded on first use (each module has it as `LAYOUT`)."""
    if entry.module not in _loaded:
        found: Layout = __import__(f"{__name__}.{entry.module}", fromlist=("LAYOUT",)).LAYOUT
        _loaded[entry.module] = found
    return _loaded[entry.module]


def single_files() -> Layout:
    """The layout of files that no other layout knows."""
    return layout(next(entry for entry in TABLE if entry.module == "singles"))


def layouts_for(folder: Folder, wanted: Optional[str] = None) -> Iterator[Layout]:
    """The layouts that the names in this directory call for, in order of precedence; only `wanted`, if given."""
    names = "\n" + "/\n".join((folder.name, *folder.dirs)) + "/\n" + "\n".join(folder.files) + "\n"
    for entry in TABLE:
        if wanted is not None and wanted not in entry.formats:
            continue
        if wanted is not None or any(hint in names for hint in entry.hints):
            yield layout(entry)
