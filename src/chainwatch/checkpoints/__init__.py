"""What lies on disk: which checkpoints there are, and which of them are intact."""
