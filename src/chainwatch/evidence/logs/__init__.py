"""Reading the logs of one attempt: what they say about its end.

A log may be a gigabyte, hold several attempts, several ranks torn into each other, colours, progress bars that end in
carriage returns, and lines of a megabyte. The end of the file is read, the head, and backwards from the end as long as
nothing found so far explains the end; every line that may carry a signature is cleaned and matched.
"""

from chainwatch.evidence.logs.read import read_logs
from chainwatch.evidence.logs.scan import Limits, LogFile

__all__ = ["Limits", "LogFile", "read_logs"]
