"""Accounting of time, reports, replay and advice."""

from chainwatch.reports.changed import changed, last_that_progressed, variables

__all__ = ["changed", "last_that_progressed", "variables"]
