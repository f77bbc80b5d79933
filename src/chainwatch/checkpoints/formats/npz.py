"""numpy files as checkpoints."""

from __future__ import annotations

from chainwatch.checkpoints.formats.arrays import Arrays


class Numpy(Arrays):
    """`.npz` (a zip, with a CRC of each array) and `.npy`, both written in place."""

    name = "npz"
    endings = (".npz", ".npy")


LAYOUT = Numpy()
