"""What runs inside the job; light imports only, valid for Python 3.8.

`from chainwatch.job import heartbeat` is the one line for people who can change their training loop.
"""

from __future__ import annotations

from chainwatch.job.beat import heartbeat

__all__ = ["heartbeat"]
