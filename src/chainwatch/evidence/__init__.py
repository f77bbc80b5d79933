"""What an attempt left behind, measured: logs, progress, completion marks, nodes and processes."""

from chainwatch.evidence.completion import measure_completion
from chainwatch.evidence.logs import Limits, LogFile, read_logs
from chainwatch.evidence.progress import PROFILES, ProgressReader, Reached

__all__ = ["PROFILES", "Limits", "LogFile", "ProgressReader", "Reached", "measure_completion", "read_logs"]
