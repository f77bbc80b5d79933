"""Looks at the processes of one job on one node: a program of its own, handed to `python3` on standard input.

It imports nothing of the project, reads `/proc`, asks nvidia-smi or rocm-smi where they are, changes nothing, and always
exits 0 within its time: a step that fails would change what accounting says of the job. What it found is printed as
numbered pieces of one compressed text, since srun may mix the lines of many nodes.

    python3 - JOB WINDOW_SECONDS MOST_SECONDS [stacks]
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

MARK = "chainwatch-probe"
_PIECE = 600
_MOST_THREADS = 256
_STACK = 24000
"""Characters of one rank's stacks."""
_GPU_SECONDS, _STACK_SECONDS = 8.0, 8.0
_XID = re.compile(r"^\[ *(\d+\.\d+)\].*(NVRM: Xid.*|amdgpu.*(?:uncorrectable|ring \S+ timeout).*)$")

found: Dict[str, Any] = {"version": 1, "node": "", "window": 0.0, "ranks": [], "problem": ""}
"""What is known so far: the watchdog prints it where something hangs."""
_printed = threading.Lock()


class Seen(NamedTuple):
    """One process at one moment."""

    pid: int
    parent: int
    name: str
    state: str
    ticks: int
    """Of processor time."""
    born: int
    bytes: int
    """Read and written so far."""
    blocked: Tuple[int, ...]
    """Threads in uninterruptible sleep."""


def main(arguments: List[str]) -> None:
    """Look twice, `window` seconds apart, and say what was seen."""
    job, window, most = arguments[0], float(arguments[1]), float(arguments[2])
    found["node"] = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    watchdog = threading.Timer(most, give_up)
    watchdog.daemon = True
    watchdog.start()
    os.nice(10)
    environments = members(job)
    first = look(environments)
    time.sleep(window)
    second = look(environments)
    found["window"] = window
    describe(environments, first, second, window)
    found.update(gpus())
    found["faults"] = kernel_faults(min([each.born for each in second.values()] or [0]))
    if "stacks" in arguments[3:]:
        found["stacks"] = stacks(environments, second)
    say()


def give_up() -> None:
    found["problem"] = "a look at the processes did not come back in time"
    say()
    os._exit(0)


def say() -> None:
    """Print what was found, in pieces. Once."""
    if not _printed.acquire(blocking=False):
        return
    packed = base64.b64encode(zlib.compress(json.dumps(found).encode("utf-8", "replace"))).decode()
    pieces = [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
    for number, piece in enumerate(pieces, 1):
        sys.stdout.write("%s %s %d/%d %s\n" % (MARK, found["node"], number, len(pieces), piece))
    sys.stdout.flush()


# -- which processes are the job's


def members(job: str) -> Dict[int, Dict[str, str]]:
    """Process ids of the job on this node with what matters of their environment; this probe's own step left out."""
    own_step, own_node = os.environ.get("SLURM_STEP_ID", ""), os.environ.get("SLURMD_NODENAME", "")
    parents: Dict[int, int] = {}
    known: Dict[int, Dict[str, str]] = {}
    apart: Set[int] = {os.getpid()}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        process = stat_of(pid)
        if process is None:
            continue
        parents[pid] = process[1]
        if process[2] == "slurmstepd":
            apart.add(pid)
            continue
        variables = environment_of(pid)
        step = variables.get("SLURM_STEP_ID", step_in_cgroup(pid, job))
        if variables.get("SLURM_JOB_ID") != job and not step_in_cgroup(pid, job):
            continue
        elsewhere = own_node and variables.get("SLURMD_NODENAME", own_node) != own_node
        if elsewhere or (own_step and step == own_step):
            apart.add(pid)
        else:
            known[pid] = variables
    for pid in parents:  # children that dropped their environment
        chain = [pid]
        while chain[-1] in parents and chain[-1] not in known and chain[-1] not in apart and len(chain) < 64:
            chain.append(parents[chain[-1]])
        if chain[-1] in known:
            for each in chain[:-1]:
                known.setdefault(each, known[chain[-1]])
    return known


_CARED_FOR = re.compile(
    "^(SLURM_(JOB_ID|STEP_ID|PROCID|NODEID|STEP_NUM_TASKS|STEP_TASKS_PER_NODE)|SLURMD_NODENAME|RANK|LOCAL_RANK"
    "|WORLD_SIZE|LOCAL_WORLD_SIZE|OMPI_COMM_WORLD_(RANK|SIZE|LOCAL_SIZE)|PATH)$"
)


def environment_of(pid: int) -> Dict[str, str]:
    """What a process began with; empty where it may not be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as source:
            text = source.read(1 << 20)
    except OSError:
        return {}
    pairs = (each.partition("=") for each in text.decode("utf-8", "replace").split("\0"))
    return {name: value for name, _, value in pairs if _CARED_FOR.match(name)}


def step_in_cgroup(pid: int, job: str) -> str:
    """The step whose cgroup holds the process; empty where no cgroup names this job."""
    try:
        with open("/proc/%d/cgroup" % pid) as source:
            inside = re.search(r"/job_%s/step_([^/\s]+)" % re.escape(job), source.read(1 << 16))
    except OSError:
        return ""
    return inside.group(1) if inside else ""


# -- what they do


def stat_of(pid: int, thread: str = "") -> Optional[Tuple[str, int, str, int, int]]:
    """State, parent, name, ticks of processor time and start of a process or one of its threads; None if it is gone."""
    try:
        with open("/proc/%d%s/stat" % (pid, thread), "rb") as source:
            text = source.read(4096).decode("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return fields[0], int(fields[1]), name, int(fields[11]) + int(fields[12]), int(fields[19])


def look(pids: Dict[int, Dict[str, str]]) -> Dict[int, Seen]:
    """All processes now."""
    seen = {}
    for pid in pids:
        process = stat_of(pid)
        if process is not None:
            state, parent, name, ticks, born = process
            seen[pid] = Seen(pid, parent, name, state, ticks, born, moved(pid), blocked(pid))
    return seen


def moved(pid: int) -> int:
    """Bytes that a process read and wrote so far, by any means."""
    try:
        with open("/proc/%d/io" % pid) as source:
            pairs = dict(line.split(":") for line in source.read().splitlines())
    except (OSError, ValueError):
        return 0
    return int(pairs.get("rchar", 0)) + int(pairs.get("wchar", 0))


def blocked(pid: int) -> Tuple[int, ...]:
    """Threads in state D: they wait for a disk, a file server or a driver, and no signal reaches them."""
    try:
        threads = os.listdir("/proc/%d/task" % pid)[:_MOST_THREADS]
    except OSError:
        return ()
    states = ((int(each), stat_of(pid, "/task/" + each)) for each in threads)
    return tuple(each for each, state in states if state is not None and state[0] == "D")


def rank_of(variables: Dict[str, str], by_variable: bool) -> Optional[int]:
    """The rank that a process belongs to; None for launchers and batch scripts."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK"):
        if variables.get(name, "").isdigit() and (name != "RANK" or variables.get("LOCAL_RANK", "").isdigit()):
            return int(variables[name])
    if by_variable or not variables.get("SLURM_STEP_ID", "").isdigit():
        return None
    number = variables.get("SLURM_PROCID", "")
    return int(number) if number.isdigit() else None


def describe(
    environments: Dict[int, Dict[str, str]], first: Dict[int, Seen], second: Dict[int, Seen], window: float
) -> None:
    """One entry a rank: what all its processes together did between the two looks."""
    hertz = float(os.sysconf("SC_CLK_TCK"))
    by_variable = {
        variables.get("SLURM_STEP_ID", "")
        for variables in environments.values()
        if rank_of(variables, True) is not None
    }
    ranks: Dict[Tuple[str, int], Dict[str, Any]] = {}
    for pid, process in sorted(second.items()):
        variables = environments[pid]
        step = variables.get("SLURM_STEP_ID", "")
        rank = rank_of(variables, step in by_variable)
        if rank is None:
            continue
        before = first.get(pid)
        entry = ranks.setdefault(
            (step, rank),
            {"step": step, "rank": rank, "pid": pid, "name": process.name, "processes": 0, "cpu": 0.0, "bytes": 0,
             "states": {}, "wait": "", "expected": expected(variables), "world": world(variables)},
        )  # fmt: skip
        entry["processes"] += process.state != "Z"
        if before is None or before.born != process.born:
            continue
        entry["cpu"] += (process.ticks - before.ticks) / hertz / window
        entry["bytes"] += max(0, process.bytes - before.bytes)
        state = process.state if process.state == before.state else "S"
        if set(process.blocked) & set(before.blocked):
            state, entry["wait"] = "D", waits_in(pid)
        entry["states"][state] = entry["states"].get(state, 0) + 1
        if process.ticks - before.ticks > 0 or process.name.startswith("python"):
            entry["name"] = process.name
    found["ranks"] = [ranks[key] for key in sorted(ranks)]


def expected(variables: Dict[str, str]) -> int:
    """How many ranks this node should have; 0 where nothing says it."""
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        if variables.get(name, "").isdigit() and rank_of(variables, True) is not None:
            return int(variables[name])
    counts: List[int] = []
    for each in variables.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        form = re.match(r"^(\d+)(?:\(x(\d+)\))?$", each)
        if form is None:
            return 0
        counts += [int(form.group(1))] * int(form.group(2) or 1)
    node = variables.get("SLURM_NODEID", "")
    return counts[int(node)] if node.isdigit() and int(node) < len(counts) else 0


def world(variables: Dict[str, str]) -> int:
    """How many ranks there should be on all nodes; 0 where nothing says it."""
    if rank_of(variables, True) is not None:
        for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
            if variables.get(name, "").isdigit():
                return int(variables[name])
    count = variables.get("SLURM_STEP_NUM_TASKS", "")
    return int(count) if count.isdigit() else 0


def waits_in(pid: int) -> str:
    """The kernel function that a process waits in, where that may be read."""
    try:
        with open("/proc/%d/wchan" % pid) as source:
            name = source.read(80)
    except OSError:
        return ""
    return "" if name == "0" else name


# -- the GPUs, and what the kernel said of them


def ask(command: List[str], seconds: float) -> Tuple[str, str]:
    """What a program printed, and why it gave no answer; both empty where there is no such program."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", "%s gave no answer within %d s" % (os.path.basename(command[0]), seconds)
    except OSError:
        return "", ""
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        return text, "%s: %s" % (os.path.basename(command[0]), " ".join(text.split())[:200] or done.returncode)
    return text, ""


def gpus() -> Dict[str, Any]:
    """Utilisation in per cent and uncorrected ECC errors of each GPU that this step may see."""
    fields = "index,utilization.gpu,ecc.errors.uncorrected.volatile.total"
    text, problem = ask(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"], _GPU_SECONDS)
    cards = []
    for line in text.splitlines() if not problem else []:
        cells = [each.strip() for each in line.split(",")]
        if len(cells) == 3 and cells[0].isdigit():
            cards.append({"index": int(cells[0]), "use": number(cells[1]), "ecc": number(cells[2])})
    if not cards and not problem:
        text, problem = ask(["rocm-smi", "--showuse", "--json"], _GPU_SECONDS)
        try:
            shown = json.loads(text) if text and not problem else {}
        except ValueError:
            shown = {}
        for name, facts in sorted(shown.items()):
            if name.startswith("card") and name[4:].isdigit() and isinstance(facts, dict):
                cards.append({"index": int(name[4:]), "use": number(str(facts.get("GPU use (%)", ""))), "ecc": None})
    return {"gpus": cards, "gpu_problem": problem}


def number(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None


def kernel_faults(born: int) -> List[Tuple[int, str]]:
    """GPU faults that the kernel told of since the job's oldest process here began, where its messages may be read:
    how many seconds ago, and its words."""
    since = born / float(os.sysconf("SC_CLK_TCK"))
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    text, problem = ask(["dmesg"], 4.0)
    lines = [_XID.match(line) for line in text.splitlines()] if not problem else []
    told = [(float(line.group(1)), line.group(2)[:200]) for line in lines if line is not None]
    return [(max(0, int(now - at)), words) for at, words in told if at >= since][-5:]


# -- where each rank stands in its program


def stacks(environments: Dict[int, Dict[str, str]], seen: Dict[int, Seen]) -> Dict[str, str]:
    """What py-spy shows of each rank's busiest Python process, without stopping it."""
    shown: Dict[str, str] = {}
    for entry in found["ranks"]:
        mine = [
            each
            for each in seen.values()
            if rank_of(environments[each.pid], False) == entry["rank"]
            and environments[each.pid].get("SLURM_STEP_ID", "") == entry["step"]
            and "python" in interpreter(each.pid)
        ]
        if not mine:
            continue
        pid = max(mine, key=lambda each: each.ticks).pid
        program = py_spy(pid, environments[pid].get("PATH", ""))
        if program:
            text, problem = ask([program, "dump", "--nonblocking", "--pid", str(pid)], _STACK_SECONDS)
            shown[str(entry["rank"])] = (text or problem)[:_STACK]
    return shown


def interpreter(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


def py_spy(pid: int, path: str) -> str:
    """py-spy of the environment that the process runs in; empty where there is none."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            word = source.read(4096).split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        word = ""
    places = [os.path.dirname(word)] if word.startswith("/") else []
    for place in [*places, *path.split(":"), os.path.dirname(interpreter(pid))]:
        candidate = os.path.join(place, "py-spy")
        if place and os.access(candidate, os.X_OK):
            return candidate
    return ""


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        main(sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - a step of ours must not fail, whatever it meets
        found["problem"] = "%s: %s" % (type(error).__name__, error)
        say()
    sys.stdout.flush()
    os._exit(0)
