"""`chainwatch exec [--] COMMAND`: what runs inside the job."""

from __future__ import annotations

from chainwatch.job.main import main

__all__ = ["main"]
