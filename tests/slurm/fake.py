"""Stand-ins for Slurm's clients: what a client would print, handed to the backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from chainwatch.slurm.backend import Submission
from chainwatch.slurm.cli import CliBackend
from chainwatch.slurm.process import Reply
from chainwatch.slurm.squeue import _FIELDS as SQUEUE_FIELDS

DATA = Path(__file__).parent / "data"
SUBMISSION = Submission("/run/job.sh", directory="/", environment=(("PATH", "/usr/bin"), ("HOME", "/root")))


def reply(stdout: bytes | str = b"", stderr: str = "", code: int = 0, command: Sequence[str] = ("client",)) -> Reply:
    """What a client answered."""
    out = stdout.encode("utf-8", "surrogateescape") if isinstance(stdout, str) else stdout
    return Reply(tuple(command), code, out, stderr, 0.01)


class Clients:
    """Answers each client's calls from a table, and remembers the calls. A function gets the whole command."""

    def __init__(self, **answers: Reply | Callable[[Sequence[str]], Reply]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, ...]] = []
        self.environments: list[Mapping[str, str]] = []

    def __call__(
        self, command: Sequence[str], *, environment: Mapping[str, str], deadline: float, **_: object
    ) -> Reply:
        name = Path(command[0]).name
        self.calls.append(tuple(command))
        self.environments.append(environment)
        given = self.answers[name]
        return given(command) if callable(given) else given


def backend(**answers: Reply | Callable[[Sequence[str]], Reply]) -> tuple[CliBackend, Clients]:
    """A backend of cluster `lab` whose clients answer from the table."""
    clients = Clients(**answers)
    return CliBackend("lab", bin_dir="/nowhere", run=clients, environment={"PATH": "/usr/bin"}), clients


def squeue_says(*rows: Mapping[str, str], header: bool = True, tail: str = "") -> Callable[[Sequence[str]], Reply]:
    """A squeue that prints these rows with whatever marks the call asks for; fields left out are plausible."""

    def answer(command: Sequence[str]) -> Reply:
        fmt = next(word for word in command if word.startswith("--Format="))
        field = re.search(r"JobID:([^,]+)", fmt)
        record = fmt.rpartition(":")[2]
        assert field is not None
        lines = [[head for _, head in SQUEUE_FIELDS]] if header else []
        lines += [[{**_PLAUSIBLE, **row}[name] for name, _ in SQUEUE_FIELDS] for row in rows]
        return reply("".join(field[1].join(line) + record + "\n" for line in lines) + tail, command=command)

    return answer


_PLAUSIBLE = {
    "JobID": "7", "State": "RUNNING", "SubmitTime": "1795973000", "StartTime": "1795973100", "EndTime": "1795976700",
    "PreemptTime": "N/A", "ArrayJobID": "7", "ArrayTaskID": "N/A", "HetJobID": "N/A", "JobArrayID": "7",
    "TimeLimit": "1:00:00", "exit_code": "0:0", "DerivedEC": "0:0", "RestartCnt": "0", "Requeue": "1",
    "PriorityLong": "100", "NumCPUs": "8", "tres-alloc": "cpu=8,mem=50M,node=1,billing=8", "NodeList": "n1",
    "UserName": "ann", "Partition": "gpu", "QOS": "normal", "Account": "lab", "Reason": "None", "Dependency": "(null)",
    "WorkDir": "/home/ann", "StdOut": "/home/ann/%j.out", "StdErr": "/home/ann/%j.out", "Command": "/home/ann/a.sh",
    "Name": "train", "Comment": "(null)",
}  # fmt: skip


def sacct_says(
    *rows: Mapping[str, str], fields: str | None = None, header: bool = True, stderr: str = "", code: int = 0
) -> Callable[[Sequence[str]], Reply]:
    """A sacct that lists its fields, and prints these rows with the delimiter and in the columns it is asked for."""
    listed = fields if fields is not None else (DATA / "helpformat-26.05.txt").read_text()

    def answer(command: Sequence[str]) -> Reply:
        if "--helpformat" in command:
            return reply(listed, command=command)
        mark = next(word.partition("=")[2] for word in command if word.startswith("--delimiter="))
        names = next(word.partition("=")[2] for word in command if word.startswith("--format=")).split(",")
        lines = [names] if header else []
        lines += [[row.get(name, _RECORD.get(name, "")) for name in names] for row in rows]
        return reply("".join(mark.join([*line, ""]) + "\n" for line in lines), stderr, code, command)

    return answer


_RECORD = {
    "JobIDRaw": "7", "JobID": "7", "State": "COMPLETED", "ExitCode": "0:0", "DerivedExitCode": "0:0",
    "Submit": "1795973000", "Start": "1795973100", "End": "1795976700", "Cluster": "lab", "NodeList": "n1",
    "User": "ann", "Partition": "gpu", "QOS": "normal",
}  # fmt: skip
