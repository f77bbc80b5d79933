"""Which node is to blame. Only where something names it, or there is only one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chainwatch.model.verdict import Evidence, Finding


def culprit_nodes(root: Finding | None, evidence: Evidence) -> tuple[str, ...]:
    """The node of the line that is the cause: named by it, by its rank, by the task that exited, or the only one."""
    nodes = evidence.job.nodes
    findings = evidence.logs.findings
    if root is not None:
        named = _known(root.node, nodes)
        if named:
            return (named,)
        if root.rank is not None and (of_rank := _node_of_rank(root.rank, findings, nodes)):
            return (of_rank,)
        if of_task := _node_of_task(root.where.text, findings, nodes):
            return (of_task,)
    if len(nodes) == 1:
        return nodes
    if evidence.job.failed_node:
        return (evidence.job.failed_node,)
    bad = [record.bad_node for record in evidence.end_records if record.bad_node]
    if bad:
        return tuple(dict.fromkeys(bad))
    text = root.where.text if root is not None else ""
    mentioned = [node for node in nodes if _mentions(text, node)]
    if len(mentioned) == 1 and _SPEAKER not in text:
        return tuple(mentioned)
    blamed = {_known(f.node, nodes) for f in findings if f.signature in _EXITS and f.node} - {None}
    if len(blamed) == 1:
        return tuple(name for name in blamed if name)
    down = [node.name for node in evidence.nodes if node.name in nodes and not node.usable]
    return (down[0],) if len(down) == 1 else ()


_EXITS = frozenset(
    {
        "launcher/mpi-rank-exit",
        "slurm/task-crash",
        "slurm/task-exit",
        "slurm/task-segfault",
        "torch/rank-host",
    }
)


_SPEAKER = "DUE TO NODE FAILURE"
"""In this notice of Slurm the node that is named wrote it: with several nodes, a survivor."""


def _known(name: str | None, nodes: Sequence[str]) -> str | None:
    """`name` as the job calls it; None where it is no node of the job. Without known nodes any host name will do."""
    if not name:
        return None
    if not nodes:
        return name if not name.replace(".", "").isdigit() else None
    short = name.split(".")[0]
    return next((node for node in nodes if node == name or node.split(".")[0] == short), None)


def _node_of_rank(rank: int, findings: Sequence[Finding], nodes: Sequence[str]) -> str | None:
    for finding in findings:
        if finding.rank == rank and finding.node and (known := _known(finding.node, nodes)):
            return known
    return None


def _node_of_task(text: str, findings: Sequence[Finding], nodes: Sequence[str]) -> str | None:
    """The node where srun says that the task ended which wrote the line (`srun --label` puts its number in front)."""
    label = _LABEL.match(text)
    if label is None:
        return None
    for finding in findings:
        tasks = _TASKS.search(finding.where.text)
        if tasks and _among(int(label[1]), tasks[2]) and (known := _known(tasks[1], nodes)):
            return known
    return None


_LABEL = re.compile(r"\s*(\d{1,6}): ")
_TASKS = re.compile(r"srun: error: ([\w.-]+): tasks? ([\d,-]+): ")


def _among(number: int, ranges: str) -> bool:
    """Is it one of `0-3,7`?"""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and int(first) <= number <= int(last if last.isdigit() else first):
            return True
    return False


def _mentions(text: str, node: str) -> bool:
    at = text.find(node)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(node) : at + len(node) + 1]
        if not any(c.isalnum() or c == "-" for c in around):
            return True
        at = text.find(node, at + 1)
    return False
