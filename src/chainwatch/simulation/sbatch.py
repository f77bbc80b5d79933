"""What sbatch makes of a command line and the script's `#SBATCH` lines: a request, or a refusal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chainwatch.simulation.settings import Settings
from chainwatch.slurm.backend import Refusal, Refused, Submission
from chainwatch.slurm.hostlist import expand

_SHORT = {
    "-J": "job-name",
    "-t": "time",
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-q": "qos",
    "-p": "partition",
    "-A": "account",
    "-d": "dependency",
    "-D": "chdir",
    "-o": "output",
    "-e": "error",
    "-x": "exclude",
    "-w": "nodelist",
    "-a": "array",
    "-H": "hold",
    "-b": "begin",
    "-M": "clusters",
}
_FLAGS = frozenset({"hold", "requeue", "no-requeue", "exclusive", "parsable", "quiet", "export-file"})
_PASSIVE = frozenset(
    {
        *{"clusters", "export", "gpus", "gres", "gpus-per-node", "mem", "mem-per-cpu", "ntasks-per-node", "nice"},
        *{"propagate", "get-user-env", "mail-type", "mail-user", "wckey", "open-mode", "input", "constraint"},
        *{"hint", "licenses", "reservation", "prefer", "switches", "deadline", "extra", "signal"},
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """One job as sbatch hands it to the controller. Times are seconds."""

    user: str
    script: str
    content: bytes
    args: tuple[str, ...]
    submit_line: str
    environment: Mapping[str, str]
    directory: str
    name: str
    qos: str
    partition: str
    account: str
    nodes: int = 1
    cpus: int | None = None
    """CPUs on each node; None: the whole node."""
    gpus: int | None = None
    comment: str = ""
    dependency: str = ""
    kill_on_invalid_dependency: bool = False
    requeue: bool = True
    hold: bool = False
    begin: float = 0.0
    """Seconds after the submission before which it does not start."""
    time_limit: float | None = None
    exclude: frozenset[str] = frozenset()
    nodelist: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    """Tasks of an array; empty for an ordinary job."""
    task_limit: int | None = None
    stdout: str = ""
    stderr: str = ""
    signal: str = ""
    signal_before: float = 60.0
    """Seconds before the time limit at which `signal` is sent."""
    signal_batch: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


def parse(submission: Submission, content: bytes, user: str, settings: Settings) -> list[Request]:
    """What one sbatch call by `user` asks for: one request, or one for each component of a het job (parted by `:`).

    Raises `Refused` (for a person) where sbatch or the controller would. Options of the command line win over those of
    the script, as with the real sbatch: a second `--comment` replaces `#SBATCH --comment`.
    """
    groups: list[list[str]] = [[]]
    for word in submission.options:
        if word == ":":
            groups.append([])
        else:
            groups[-1].append(word)
    return [_component(submission, content, group, user, settings) for group in groups]


def _component(submission: Submission, content: bytes, given: Iterable[str], user: str, settings: Settings) -> Request:
    options = {**dict(_options(_directives(content))), **dict(_options(given))}
    environment = _exported(dict(submission.environment), options.get("export", "ALL"))
    qos = options.get("qos", settings.default_qos)
    if settings.find_qos(qos) is None:
        raise _failed("Invalid qos specification")
    partition = options.get("partition", settings.partition)
    if partition != settings.partition:
        raise _failed("invalid partition specified: " + partition)
    account = options.get("account", settings.accounts[0])
    if account not in settings.accounts:
        raise _failed("Invalid account or account/partition combination specified")
    tasks, task_limit = array_tasks(options["array"]) if "array" in options else ((), None)
    signal, before, batch = _signal(options.get("signal", ""))
    stdout = options.get("output", "slurm-%A_%a.out" if tasks else "slurm-%j.out")
    limit = seconds_of(options["time"]) if "time" in options else settings.default_time_limit
    if set(expand(options.get("nodelist", ""))) & set(expand(options.get("exclude", ""))):
        raise _failed("Invalid node name specified")
    return Request(
        user=user,
        script=submission.script,
        content=content,
        args=submission.args,
        submit_line=" ".join(["sbatch", *submission.options, submission.script, *submission.args]),
        environment=environment,
        directory=options.get("chdir", submission.directory) or "/",
        name=options.get("job-name", submission.script.rsplit("/", 1)[-1]),
        qos=qos,
        partition=partition,
        account=account,
        nodes=int(options.get("nodes", "1").split("-")[0]),
        cpus=_cpus(options),
        gpus=_gpus(options),
        comment=options.get("comment", ""),
        dependency=options.get("dependency", ""),
        kill_on_invalid_dependency=options.get("kill-on-invalid-dep", "no") == "yes",
        requeue=options.get("requeue", "yes") == "yes",
        hold="hold" in options,
        begin=_begin(options.get("begin", "")),
        time_limit=limit,
        exclude=frozenset(expand(options.get("exclude", ""))),
        nodelist=tuple(expand(options.get("nodelist", ""))),
        tasks=tasks,
        task_limit=task_limit,
        stdout=stdout,
        stderr=options.get("error", stdout),
        signal=signal,
        signal_before=before,
        signal_batch=batch,
        options=options,
    )


def seconds_of(text: str) -> float | None:
    """Slurm's time formats (`90`, `30:00`, `12:00:00`, `2-12`, `2-12:00:00`) in seconds; None for UNLIMITED.

    Raises `Refused` where the text is none of them.
    """
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if found is None:
        raise _failed(f"Invalid --time specification: {text}")
    days, a, b, c = (None if g is None else int(g) for g in found.groups())
    if days is not None:
        return days * 86400.0 + (a or 0) * 3600 + (b or 0) * 60 + (c or 0)
    if c is not None:
        return (a or 0) * 3600.0 + (b or 0) * 60 + c
    return (a or 0) * 60.0 + (b or 0)


def array_tasks(text: str) -> tuple[tuple[int, ...], int | None]:
    """Tasks and `%limit` of an `--array` value."""
    spec, _, limit = text.partition("%")
    tasks: list[int] = []
    for part in spec.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+))?", part)
        if found is None:
            raise _failed("Invalid job array specification")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        tasks += range(first, last + 1, step)
    return tuple(sorted(set(tasks))), int(limit) if limit else None


def _directives(content: bytes) -> list[str]:
    words: list[str] = []
    for line in content.decode("utf-8", "replace").splitlines():
        if line.startswith("#SBATCH"):
            words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif line.strip() and not line.startswith("#"):
            break
    return words


def _options(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word[:2] in _SHORT:
            name, value = _SHORT[word[:2]], word[2:]
            equals = value
        else:
            raise _failed(f"unrecognized option '{word}'")
        if not equals and name not in _FLAGS:
            value = next(rest, "")
        if name not in _FLAGS and name not in _PASSIVE and name not in _SHORT.values() and name not in _LONG:
            raise _failed(f"unrecognized option '{word}'")
        if name in {"requeue", "no-requeue"}:
            name, value = "requeue", "yes" if name == "requeue" else "no"
        yield name, value


_LONG = frozenset({"comment", "kill-on-invalid-dep", "gpus-per-task"})


def _exported(environment: dict[str, str], export: str) -> Mapping[str, str]:
    """The environment that `--export` lets through."""
    words = export.split(",")
    kept = environment if words[0] == "ALL" else {}
    if words[0] not in {"ALL", "NONE", "NIL"}:
        kept = {w: environment[w] for w in words if "=" not in w and w in environment}
    return {**kept, **dict(w.split("=", 1) for w in words if "=" in w)}


def _signal(text: str) -> tuple[str, float, bool]:
    found = re.fullmatch(r"(?:([BR]+):)?(\w+)(?:@(\d+))?", text)
    if found is None:
        return "", 60.0, False
    return found[2].removeprefix("SIG"), float(found[3] or 60), "B" in (found[1] or "")


def _cpus(options: Mapping[str, str]) -> int | None:
    if "exclusive" in options:
        return None
    tasks = int(options.get("ntasks-per-node") or options.get("ntasks", "1"))
    return tasks * int(options.get("cpus-per-task", "1"))


def _gpus(options: Mapping[str, str]) -> int | None:
    for name in ("gpus", "gpus-per-node", "gres"):
        if name in options:
            return int(options[name].rsplit(":", 1)[-1])
    return None


def _begin(text: str) -> float:
    found = re.fullmatch(r"now\+(\d+)(seconds?|minutes?|hours?|days?)?", text)
    if found is None:
        return 0.0
    unit = {"m": 60, "h": 3600, "d": 86400}.get((found[2] or "s")[0], 1)
    return float(int(found[1]) * unit)


def _failed(why: str) -> Refused:
    return Refused(f"sbatch: error: Batch job submission failed: {why}", Refusal.PERSON)
