"""What a backend promises, as plays that any backend can be put through.

The private Slurm of the tests and the simulated cluster are put through the same cases, so that what is proven on the
simulated cluster holds on a real one. A case is a function of a `Stage`; the read-only ones need nothing but a
backend and may run against a live cluster.

With pytest::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_the_backend_keeps_its_contract(case: Case, stage: Stage) -> None:
        try:
            case.run(stage)
        except CannotPlay as reason:
            pytest.skip(str(reason))

Without it: `play(stage, CASES)` yields one `Outcome` a case.
"""

from chainwatch.slurm.contract import groups, lives, noes, reading, returns
from chainwatch.slurm.contract.case import Case, Outcome, Result, play, registered
from chainwatch.slurm.contract.stage import Broken, Can, CannotPlay, Program, Stage, expect, submission

MODULES = (reading, lives, returns, groups, noes)
_ORDER = [module.__name__ for module in MODULES]
CASES: tuple[Case, ...] = tuple(sorted(registered(), key=lambda one: _ORDER.index(one.play.__module__)))
"""Every case: the reading ones first, the outages last."""

__all__ = [
    "CASES",
    "MODULES",
    "Broken",
    "Can",
    "CannotPlay",
    "Case",
    "Outcome",
    "Program",
    "Result",
    "Stage",
    "expect",
    "play",
    "registered",
    "submission",
]
