"""The contract of the backends on every Slurm that can be had here, and the table of it in the README."""
