"""Checks of the cluster and the setup, and the lint of batch scripts."""

from chainwatch.doctor.asking import Patient, asker
from chainwatch.doctor.checks import examine
from chainwatch.doctor.contract import reading_part
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.lint import Site, lint

__all__ = ["Finding", "Level", "Patient", "Site", "asker", "examine", "lint", "reading_part"]
