"""What lies on disk: which checkpoints there are, and which of them are intact.

>>> from chainwatch.checkpoints import verify, newest_intact
>>> newest_intact("/scratch/me/run7").path          # doctest: +SKIP
'/scratch/me/run7/global_step13000'
>>> [(c.step, c.status.value, c.reason) for c in verify("/scratch/me/run7").checkpoints]     # doctest: +SKIP
"""

from chainwatch.checkpoints.verify import newest_intact, verify
from chainwatch.model.checkpoint import Checkpoint, Problem, RunReport, Status

__all__ = ["Checkpoint", "Problem", "RunReport", "Status", "newest_intact", "verify"]
