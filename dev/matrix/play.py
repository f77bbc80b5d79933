"""One row: boot the cluster, put its backend through the contract, write what came of it.

`python -m dev.matrix.play PLAN RESULT.json` runs as a process of its own, so that rows can go side by side.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from chainwatch.slurm.contract import CASES, Broken, Outcome, Program, Stage, play, submission
from chainwatch.slurm.contract import Case as ContractCase
from chainwatch.slurm.pyslurm import PyslurmBackend
from chainwatch.slurm.weaker import Weakness, of_release
from dev.matrix.cost import compare
from dev.matrix.measure import weaknesses
from dev.matrix.row import BARE, BY_OPTION, PLANS, Case, Plan, Row, dump
from dev.slurm import ClusterError, PrivateCluster, Settings, missing_programs
from dev.slurm.installation import full_version
from dev.slurm.library import build
from dev.slurm.stage import RealStage
from dev.slurm.suites import SUITES, SuiteUnavailable, tree
from dev.slurm.system import write_command

WAITING = frozenset(
    {
        "job_that_hits_its_time_limit",
        "controller_forgets_and_accounting_remembers",
        "dependency_on_a_forgotten_job_holds_nothing",
        "running_job_is_looked_into",
    }
)
"""Cases that mostly wait: they run beside the others, and are over before any outage begins."""


def run(plan: Plan) -> Row:
    """Run one row to its end."""
    if plan.backend == "simulated":
        return _simulated(plan)
    try:
        system = tree(SUITES[plan.suite]) if plan.suite else None
        python = build(system) if system is not None and plan.backend == "pyslurm" else None
    except SuiteUnavailable as reason:
        return Row(plan, not_run=str(reason))
    missing = [] if system else missing_programs()
    if missing:
        return Row(plan, not_run=f"{', '.join(missing)} not installed on this machine")
    root = Path(tempfile.mkdtemp(prefix="chainwatch-matrix-"))
    try:
        with _booted(plan, root, str(system or "")) as (cluster, conf):
            row = _on(cluster, plan, python, conf)
    except ClusterError as error:
        return Row(plan, cases=(Case("the cluster boots", "failed", str(error)),))
    if row.good:
        shutil.rmtree(root, ignore_errors=True)
    else:
        print(f"{plan.name}: the cluster's files and logs are kept in {root}", file=sys.stderr)
    return row


@contextlib.contextmanager
def _booted(plan: Plan, root: Path, system: str) -> Iterator[tuple[PrivateCluster, Path | None]]:
    """The cluster of a plan, and the slurm.conf of the other cluster from which it is reached, if there is one."""
    settings = Settings(nodes=4, message_timeout=2, system=system, accounting=plan.site != BARE)
    if plan.site != BY_OPTION:
        with PrivateCluster.boot(root / "cluster", settings) as cluster:
            yield cluster, None
        return
    with PrivateCluster.boot(root / "other", dataclasses.replace(settings, nodes=1)) as other:
        beside = dataclasses.replace(settings, beside=str(other.root))
        with PrivateCluster.boot(root / "cluster", beside) as cluster:
            yield cluster, other.conf


def _on(cluster: PrivateCluster, plan: Plan, python: str | None, conf: Path | None) -> Row:
    version = full_version(cluster.env)
    moved = "" if version.startswith(plan.release) else f"the suite has moved on from {plan.release} to {version}"
    library = None if python is None else str(write_command(cluster.layout.commands, "pyslurm-python", python))
    stage = RealStage(cluster, getpass.getuser(), library, conf)
    stage.backend.submit(submission(stage, Program(), "--hold"))  # the cases that only read want something to read
    outcomes = []
    said = 0
    for outcome in side_by_side(stage):
        outcomes.append(_told(plan, outcome))
        said = said if _disturbs(outcome.case) else len(stage.said)
    cost = ""
    if library is not None:
        try:
            cost = compare(cluster, library).sentence()
        except RuntimeError as reason:
            outcomes.append(Case("the_cost_of_a_poll_is_measured", "failed", str(reason)))
    if plan.site == BARE:
        return Row(plan, version, tuple(outcomes), (Weakness.NO_ACCOUNTING.value,), note=moved)
    found, known = weaknesses(stage), of_release(version)
    if isinstance(stage.backend, PyslurmBackend):
        outcomes.append(_by_the_library(stage, stage.backend, stage.said[:said]))
        stage.backend.close()
        found, known = (Weakness.ASKS_BY_TOOLS, *found), (Weakness.ASKS_BY_TOOLS, *known)
    if set(found) != set(known):
        why = f"measured {[one.name for one in found]}, and chainwatch.slurm.weaker says {[one.name for one in known]}"
        outcomes.append(Case("what_is_weaker_is_known", "failed", why))
    return Row(plan, version, tuple(outcomes), tuple(one.value for one in found), cost=cost, note=moved)


def side_by_side(stage: Stage) -> Iterator[Outcome]:
    """Every case, in the contract's order as far as it matters: what waits runs beside what does not."""
    beside = [case for case in CASES if case.name in WAITING]
    others = [case for case in CASES if case.name not in WAITING]
    quiet = [case for case in others if not _disturbs(case)]
    with ThreadPoolExecutor(len(beside)) as pool:
        waiting = [pool.submit(lambda case=case: list(play(stage, [case]))) for case in beside]  # type: ignore[misc]
        yield from play(stage, quiet)
        for future in waiting:
            yield from future.result()
    yield from play(stage, [case for case in others if _disturbs(case)])


def _by_the_library(stage: RealStage, backend: PyslurmBackend, in_peace: Sequence[str]) -> Case:
    """Without an outage the library must have answered: tools that step in each time would pass every case too."""
    name = "the_library_answers_and_the_tools_step_in_where_it_cannot"
    strange = [sentence for sentence in in_peace if "made for another release" not in sentence]
    if strange:
        return Case(name, "failed", f"the tools stepped in without an outage: {strange[0]}")
    if not any("step in" in sentence for sentence in stage.said):
        return Case(name, "failed", "nobody said that the tools stepped in while the controller was down")
    try:
        stage.wait_until(
            lambda: (stage.backend.queue(stage.user) is not None and not backend.stands_in) or None, 60, ""
        )
    except Broken:
        return Case(name, "failed", f"the tools still stand in: {backend.stands_in}")
    return Case(name, "passed")


def _disturbs(case: ContractCase) -> bool:
    """It takes a part of the cluster away, which others would see."""
    return case.play.__module__.endswith(".noes")


def _simulated(plan: Plan) -> Row:
    from tests.simulation.stage import SHORT, SimulatedStage

    settings = dataclasses.replace(SHORT, release=f"{plan.release}.0")
    outcomes = []
    for case in CASES:
        stage = cast(Stage, SimulatedStage(settings))
        stage.backend.submit(submission(stage, Program(), "--hold"))
        outcomes += [_told(plan, outcome) for outcome in play(stage, [case])]
    return Row(plan, settings.release, tuple(outcomes))


def _told(plan: Plan, outcome: Outcome) -> Case:
    if outcome.why:
        print(f"{plan.name}: {outcome.case.name} {outcome.result}: {outcome.why}", file=sys.stderr, flush=True)
    return Case(outcome.case.name, outcome.result.value, outcome.why)


if __name__ == "__main__":
    chosen = next(plan for plan in PLANS if plan.name == sys.argv[1])
    Path(sys.argv[2]).write_text(dump([run(chosen)]))
