"""Coverage-guided fuzzing of the file readers; see `targets.py` for what is fuzzed and `run.py` for how."""
