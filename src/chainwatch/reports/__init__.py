"""Accounting of time, reports, replay and advice."""
