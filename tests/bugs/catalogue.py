"""Faults that tools of this field shipped, each with what went wrong there. Every one is played by some test here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

BUGS = {
    "Snakemake-Profiles/slurm#22": "`CANCELLED by 1001` was not in the table of states, so the job ran for ever",
    "snakemake-executor-plugin-slurm#109": "PREEMPTED meant failed: a job that Slurm requeued was submitted once more",
    "snakemake-executor-plugin-slurm#132": "the same for a lost node: two copies wrote into one output",
    "NVIDIA-NeMo/DataDesigner#913": "PREEMPTED without requeue counted as alive for ever; then long queues were killed",
    "virtualcell/vcell#1915": "only the word FAILED was a failure; rows of steps confused what was left",
    "Parsl/parsl#2255": "state words in the other of squeue's two forms were unknown, and unknown meant absent",
    "nextflow-io/nextflow#5298": "NF, a node that failed at the start, was taken for a job that runs",
    "michellab/a3fe#14": "every id that squeue lists was taken for a live job, ended ones too",
    "snakemake-executor-plugin-slurm#12": "accounting knew nothing yet, and the workflow waited for ever without a word",
    "snakemake-executor-plugin-slurm#336": "a site without accounting was asked for it again and again",
    "Parsl/parsl#1588": "`Invalid job id specified` was taken for a passing error, and a job that was gone ran for ever",
    "llnl/maestrowf#264": "the job left squeue's answer while it was completing, and its state was never asked again",
    "llnl/maestrowf#266": "UNKNOWN after it had run left the step running",
    "llnl/maestrowf#405": "squeue alone cannot say how a job ended that it no longer lists",
    "NVIDIA/Model-Optimizer#1900": "not found in a purged accounting meant running, though a mark proved it done",
    "skypilot-org/skypilot#10458": "one empty answer removed the record of a live job",
    "nextflow-io/nextflow#2696": "a time-out of squeue, now and then, ended pipelines",
    "nextflow-io/nextflow#1151": "jobs were asked for by partition, and disappeared when an admin moved them",
    "materialsproject/fireworks#358": "`Submitted batch job 4711 on cluster alpha` ended in a number that was none",
    "reframe-hpc/reframe#303": "ReqNodeNotAvail was called hopeless, and the job cancelled",
    "reframe-hpc/reframe#1049": "it also stands there with an empty list of nodes",
    "reframe-hpc/reframe#2411": "and for nodes that may only be reserved for somebody else",
    "burrmill/burrmill#15": "a failed launch requeues the job held; watchers saw it pending and waited for ever",
    "ROCm/spur#243": "the same in squeue's spelling, with blanks",
    "aiidateam/aiida-core#7554": "a job's name held the separator of the columns",
    "ufs-community/ufs-weather-model#2379": "columns of fixed width merged, and the user was read as the state",
    "glotzerlab/signac-flow#13": "quotes that no shell took away stood in every line",
    "aiidateam/aiida-core#3415": "a time limit that is no number ended the reader",
    "PySlurm/pyslurm#33": "a name that is no ASCII lost the whole list",
    "PySlurm/pyslurm#71": "and so did bytes that are no UTF-8",
    "Lightning-AI/pytorch-lightning#15022": "the id of one task of an array requeued the whole array",
    "Lightning-AI/pytorch-lightning#15040": "the shown ids of arrays come in many forms",
    "facebookincubator/submitit#1708": "a job that had requeued itself was resubmitted beside itself",
    "facebookincubator/submitit#1697": "time-outs and preemptions both say DUE TO JOB REQUEUE then",
    "facebookincubator/submitit#1701": "and are not told apart by the signal",
    "facebookincubator/submitit#1615": "nor by the exit code",
    "tgen/jetstream#121": "a lost node failed the task at once, while Slurm requeued it",
    "tgen/jetstream#137": "whether it comes back is the job's own setting",
    "Lightning-AI/pytorch-lightning#15008": "ranks deaf to SIGTERM drained their nodes, and the next job drained fresh ones",
    "facebookincubator/submitit#1780": "`Kill task failed` on node after node",
    "ZettaAI/zetta_utils#671": "one component had ended, the others held the nodes for nothing",
    "PrimeIntellect-ai/prime-rl#2574": "the job ran on though its work had crashed",
    "snakemake-executor-plugin-slurm#240": "a lost node was not kept away from",
    "snakemake-executor-plugin-slurm#411": "and a good node was, for a user's own mistake",
    "reframe-hpc/reframe#283": "one squeue a job and poll overloaded the controller",
    "reframe-hpc/reframe#3642": "without any backing off",
}

PLAYED: dict[str, list[str]] = {}
"""Which tests play which bug; filled as their modules are read."""


def plays(*bugs: str) -> Callable[[F], F]:
    """Say of a test which of the bugs it plays."""

    def note(test: F) -> F:
        for bug in bugs:
            PLAYED.setdefault(bug, []).append(test.__name__)
        return test

    return note
