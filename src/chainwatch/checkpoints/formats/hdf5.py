"""HDF5 files as checkpoints."""

from __future__ import annotations

from chainwatch.checkpoints.formats.arrays import Arrays


class Hdf5(Arrays):
    """`.h5` and `.hdf5`, written in place, without a checksum."""

    name = "hdf5"
    endings = (".h5", ".hdf5", ".he5")


LAYOUT = Hdf5()
