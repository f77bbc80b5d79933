"""All checks, in the order in which they are told. Read-only: nothing is changed, posted or submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chainwatch.doctor import cluster, machine, preemption, quota, setup, tickets
from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level

Check = Callable[[Patient], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    cluster.tools,
    cluster.controller,
    cluster.accounting,
    preemption.preemption,
    cluster.requeue,
    cluster.timers,
    cluster.bad_exit,
    cluster.limits,
    machine.file_systems,
    quota.quotas,
    tickets.tickets,
    machine.lingering,
    machine.login_nodes,
    machine.sendmail,
    setup.site,
    setup.scripts,
    setup.channels,
    setup.instances,
)


def examine(patient: Patient, checks: tuple[Check, ...] = CHECKS) -> Iterator[Finding]:
    """The findings, as they come. A check that breaks is a finding of its own, and the others go on."""
    for check in checks:
        try:
            yield from check(patient)
        except Exception as error:  # noqa: BLE001 - one check's bug must not hide what the others find
            name = check.__name__
            yield Finding(
                name, Level.UNKNOWN, f"the check {name} broke with {type(error).__name__}: {error}", "", "Report it."
            )
