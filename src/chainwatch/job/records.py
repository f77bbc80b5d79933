"""The end record: how the command of one task ended, in words that outlive srun's rewriting of exit codes."""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Dict, List, Mapping, Optional

from chainwatch.job.place import Task

PREFIX = "end-"
VERSION = 1
SAVING_SECONDS = 10.0
"""A file of the run that grew this recently is being saved."""
_IMAGES = ("_SLURM_SPANK_OPTION_pyxis_container_image", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SHIFTER_IMAGE")
_TAIL = 8192
_LINES = 20
_MOST_ENTRIES = 4000


def file_name(task: Task) -> str:
    """`end-STEP-RANK.json`; in the batch script `end-batch-PID.json`, since there each call is one of its own."""
    return "%s%s-%d.json" % (PREFIX, task.step or "batch", task.rank if task.step else os.getpid())


def oom_kills(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Optional[int]:
    """How often the kernel killed for memory in this cgroup and those above it within the job; None where unreadable."""
    try:
        with open(os.path.join(proc, "self/cgroup")) as source:
            lines = source.read().splitlines()
    except OSError:
        return None
    counts: List[int] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            root, name = cgroups, "memory.events"
        elif "memory" in controllers.split(","):
            root, name = os.path.join(cgroups, "memory"), "memory.oom_control"
        else:
            continue
        for level in _levels(path):
            count = _counter(os.path.join(root, level.lstrip("/"), name), "oom_kill")
            if count is not None:
                counts.append(count)
    return max(counts) if counts else None


def _levels(path: str) -> List[str]:
    """This group, and those above it up to Slurm's group of the job."""
    levels = [path]
    while "job_" in path and not os.path.basename(path).startswith("job_"):
        path = os.path.dirname(path)
        levels.append(path)
    return levels


def _counter(path: str, name: str) -> Optional[int]:
    try:
        with open(path) as source:
            for line in source:
                key, _, value = line.partition(" ")
                if key == name:
                    return int(value)
    except (OSError, ValueError):
        pass
    return None


def last_lines(fd: int) -> List[str]:
    """The end of what was printed, where that goes to a plain file; nothing for pipes and terminals."""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return []
        with open("/proc/self/fd/%d" % fd, "rb") as source:
            source.seek(max(0, status.st_size - _TAIL))
            text = source.read(_TAIL)
    except OSError:
        return []
    return [each[-500:] for each in text.decode("utf-8", "replace").splitlines()[-_LINES:]]


def save_under_way(run: str, now: Optional[float] = None) -> Optional[bool]:
    """A file under the run directory changed within the last seconds. None where the directory cannot be looked at."""
    limit = (time.time() if now is None else now) - SAVING_SECONDS
    waiting, seen = [(run, 0)], 0
    try:
        while waiting:
            directory, depth = waiting.pop()
            with os.scandir(directory) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_ENTRIES:
                        return None
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        if depth < 3 and entry.name != ".chainwatch":
                            waiting.append((entry.path, depth + 1))
                    elif info.st_mtime >= limit and stat.S_ISREG(info.st_mode):
                        return True
    except OSError:
        return None
    return False


def peak_memory() -> int:
    """Bytes: the largest resident size of any process of the command that has ended."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def image(environment: Mapping[str, str]) -> str:
    """The container image that this process runs in, as its runtime says; empty outside of one, or where it is silent."""
    return next((environment[name] for name in _IMAGES if environment.get(name)), "")


def record(task: Task, started: float, **facts: Any) -> Dict[str, Any]:
    """The document: who and when, and the facts that are given."""
    document: Dict[str, Any] = {
        "version": VERSION,
        "job": task.job,
        "restarts": task.restarts,
        "slurm_step": task.step,
        "rank": task.rank,
        "node": task.node,
        "started": started,
        "at": time.time(),
        "image": image(os.environ),
    }
    document.update(facts)
    return document
