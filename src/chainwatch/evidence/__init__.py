"""What an attempt left behind, measured: logs, progress, completion marks, nodes and processes."""
