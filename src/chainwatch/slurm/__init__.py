"""What Slurm says, and how to ask it for things."""
