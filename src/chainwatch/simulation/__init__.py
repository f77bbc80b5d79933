"""A simulated cluster behind the Backend protocol, in virtual time: days of preemptions and outages in milliseconds."""

from chainwatch.simulation.backend import SimulatedBackend
from chainwatch.simulation.clock import VirtualClock
from chainwatch.simulation.cluster import Reach, SimulatedCluster
from chainwatch.simulation.disk import Disk, StorageHangs
from chainwatch.simulation.faults import Call, Fault, FaultKind, FaultPlan
from chainwatch.simulation.process import batch
from chainwatch.simulation.resubmitter import SiteResubmitter
from chainwatch.simulation.settings import NodeSpec, PreemptMode, Qos, Settings
from chainwatch.simulation.training import (
    OnTerm,
    Recipe,
    ResumeRule,
    Training,
    TrainingFault,
    Trouble,
)

__all__ = [
    "Call",
    "Disk",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "NodeSpec",
    "OnTerm",
    "PreemptMode",
    "Qos",
    "Reach",
    "Recipe",
    "ResumeRule",
    "Settings",
    "SimulatedBackend",
    "SimulatedCluster",
    "SiteResubmitter",
    "StorageHangs",
    "Training",
    "TrainingFault",
    "Trouble",
    "VirtualClock",
    "batch",
]
