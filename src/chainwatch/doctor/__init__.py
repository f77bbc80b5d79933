"""Checks of the cluster and the setup, and the lint of batch scripts."""
