"""Verdict, history and policy to decision: pure functions."""
