"""Evidence to verdict: pure functions."""
