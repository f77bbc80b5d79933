"""`chainwatch exec [options] [--] COMMAND`: stands between Slurm and the training program.

Picks the checkpoint, checks the node, starts the command, passes signals and exit code through, and leaves an end record.
Nothing that goes wrong with the records or the heartbeat may keep the command from running or change its exit code.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from chainwatch.job import beat, choose, records
from chainwatch.job.node import NodeFacts
from chainwatch.job.once import NoAnswer, once
from chainwatch.job.place import directory_of, task_of, write_json
from chainwatch.job.preflight import REFUSED, Refusal, Wanted, check
from chainwatch.job.signals import NOT_EXECUTABLE, NOT_FOUND, Ended, stand_in

USAGE, NONE_INTACT = 2, 3
PATIENCE = 10.0
"""Seconds that storage may take for an end record before the task ends without one."""

HELP = """\
usage: chainwatch exec [options] [--] COMMAND [ARGUMENT…]

Runs COMMAND inside a job, in the batch script or under srun. It picks the newest intact checkpoint when the job starts
(once for all tasks of a step) and hands it over:

  CHAINWATCH_RESUME_FROM   its path; empty: no checkpoint exists yet, start fresh
  CHAINWATCH_RESUME_STEP   its step, where known
  CHAINWATCH_RESUME_FILE   a file that holds its path

The exit code is COMMAND's own, 128+n where signal n ended it; signals are passed on. Other codes: 75 the preflight
refused this node; 3 checkpoints exist and none is intact; 2 usage, or the checkpoints cannot be read; 127 and 126 as
in a shell.

  --checkpoints DIR      run directory of the checkpoints (default $CHAINWATCH_CHECKPOINTS; neither: nothing is picked)
  --format NAME          judge only checkpoints of that format
  --rule FILE            YAML or JSON of your own rule for checkpoints of no known format
  --from-scratch         start fresh where checkpoints exist and none is intact
  --map HOST=CONTAINER   the program sees the host's directory there; may be given several times
  --preflight COMMAND    shell command that must exit 0 on each node before COMMAND starts
  --need-path PATH       must be readable on each node; may be given several times
  --need-free GIGABYTES  must be free where the checkpoints lie
  --need-gpus N          nvidia-smi must list that many, none with uncorrected ECC errors
  --heartbeat SECONDS    time between two signs of life of a node (default 30; 0: none)
"""

_VALUES = (
    "--checkpoints",
    "--format",
    "--rule",
    "--map",
    "--preflight",
    "--need-path",
    "--need-free",
    "--need-gpus",
    "--heartbeat",
)


class _Usage(Exception):
    pass


class Order(NamedTuple):
    """A parsed command line."""

    command: List[str]
    checkpoints: str = ""
    format: Optional[str] = None
    rule: str = ""
    from_scratch: bool = False
    paths: Tuple[Tuple[str, str], ...] = ()
    wanted: Wanted = Wanted()
    heartbeat: float = 30.0


def main(arguments: List[str]) -> int:
    """Run the command; returns the exit code."""
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    try:
        order = _parse(arguments)
    except _Usage as error:
        say("%s (see chainwatch exec --help)" % error)
        return USAGE
    return Run(order).run()


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write("chainwatch: %s\n" % text)
    sys.stderr.flush()


class Run:
    """One command in one task."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.task = task_of(os.environ)
        self.directory = directory_of(os.environ, self.task)
        self.started = time.time()
        self.oom_before = records.oom_kills()
        self.resumed: Optional[str] = None
        self.signals: List[Tuple[str, float]] = []
        self.saving: Optional[bool] = None

    def run(self) -> int:
        """Everything, in its order."""
        environment: Dict[str, str] = dict(os.environ)
        environment["CHAINWATCH_DIR"] = os.path.dirname(os.path.dirname(self.directory))
        refusal = self._preflight()
        if refusal is not None:
            say("%s is not fit: %s" % (self.task.node, refusal.why))
            self._record(
                exit_code=REFUSED, preflight=refusal.why, bad_node=self.task.node if refusal.node_at_fault else None
            )
            return REFUSED
        if environment.get(choose.CHOSEN) == choose.mark(self.task):
            self.resumed = environment.get(choose.FROM) or None
        elif self.order.checkpoints:
            try:
                choice = choose.chosen(
                    self.directory, self.task, self.order.checkpoints, self.order.format, choose.avoided(environment),
                    self.order.rule,
                )  # fmt: skip
            except ValueError as error:
                say("%s (see chainwatch exec --help)" % error)
                return USAGE
            except (NoAnswer, OSError) as error:
                return self._no_choice(str(error), USAGE)
            for sentence in choice.said:
                say(sentence)
            if choice.refused and not (self.order.from_scratch and "cannot be read" not in choice.refused):
                return self._no_choice(choice.refused, USAGE if "cannot be read" in choice.refused else NONE_INTACT)
            try:
                environment = choose.hand_over(choice, environment, self.directory, self.task, dict(self.order.paths))
            except OSError as error:
                return self._no_choice("%s: %s" % (error.filename, error.strerror), USAGE)
            self.resumed = choice.path or None
        return self._command(environment)

    def _no_choice(self, why: str, code: int) -> int:
        say(why)
        self._record(exit_code=code, refused=why)
        return code

    def _preflight(self) -> Optional[Refusal]:
        wanted = self.order.wanted
        if not wanted.anything:
            return None
        if not self.task.step:
            return check(wanted, self.order.checkpoints, os.environ)

        def work() -> Dict[str, Any]:
            refusal = check(wanted, self.order.checkpoints, os.environ)
            return {"why": refusal.why if refusal else "", "node_at_fault": bool(refusal and refusal.node_at_fault)}

        try:
            answer = once(self.directory, "preflight-%s-%s" % (self.task.step, self.task.node), work)
        except (NoAnswer, OSError) as error:
            return Refusal("the preflight's answer cannot be shared: %s" % error, False)
        return Refusal(str(answer["why"]), bool(answer.get("node_at_fault"))) if answer.get("why") else None

    def _command(self, environment: Dict[str, str]) -> int:
        name = os.path.join(self.directory, "%s%s-%d.json" % (beat.PREFIX, self.task.step or "batch", self.task.rank))
        environment[beat.FILE] = choose.mapped(name, dict(self.order.paths))
        heart = None
        if self.order.heartbeat and self.task.leads_node:
            path = os.path.join(self.directory, "node-%s-%s.json" % (self.task.step or "batch", self.task.node))
            facts = NodeFacts(self.task.node, self.task.step, name, environment)
            heart = beat.NodeBeat(path, facts, self.order.heartbeat)
        try:
            ended = stand_in(self.order.command, environment, self._noted, heart.start if heart else _nothing)
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            say("%s: %s" % (self.order.command[0], error.strerror))
            self._record(exit_code=code)
            return code
        finally:
            if heart is not None:
                heart.stop()
        self._ended(ended)
        return ended.code

    def _noted(self, number: signal.Signals, at: float) -> None:
        """A signal came: written down at once, since SIGKILL may follow."""
        self.signals.append((number.name, at))
        if len(self.signals) == 1 and self.order.checkpoints:
            self.saving = bounded(lambda: records.save_under_way(self.order.checkpoints, at), 2.0)
        self._record(exit_code=None, running=True)

    def _ended(self, ended: Ended) -> None:
        if ended.code == 0 and not self.signals and not self.task.leads_node:
            return  # thousands of tasks that ended well need no file each
        oom = records.oom_kills()
        self._record(
            exit_code=ended.exit_code,
            signal=ended.signal,
            oom_kill=oom is not None and oom > (self.oom_before or 0),
            peak_memory=records.peak_memory(),
            last_lines=[] if ended.code == 0 else records.last_lines(2) or records.last_lines(1),
        )

    def _record(self, **facts: Any) -> None:
        document = records.record(
            self.task, self.started, command=self.order.command[:8], signals=self.signals, saving=self.saving,
            resumed_from=self.resumed, **facts,
        )  # fmt: skip
        path = os.path.join(self.directory, records.file_name(self.task))
        bounded(lambda: write_json(path, document), PATIENCE)


def bounded(work: Callable[[], Any], seconds: float) -> Any:
    """What `work` gives; None where it takes longer (storage hangs) or fails."""
    got: List[Any] = []

    def run() -> None:
        try:
            got.append(work())
        except OSError:
            pass

    thread = threading.Thread(target=run, name="chainwatch-write", daemon=True)
    thread.start()
    thread.join(seconds)
    return got[0] if got else None


def _nothing() -> None:
    pass


def _parse(arguments: Sequence[str]) -> Order:
    given: Dict[str, List[str]] = {name: [] for name in _VALUES}
    scratch = False
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word == "--from-scratch":
            scratch = True
        elif name not in given:
            raise _Usage("no such option: %s" % word)
        elif not equals and not rest:
            raise _Usage("%s needs a value" % name)
        else:
            given[name].append(value if equals else rest.pop(0))
            if not given[name][-1]:  # the job would start from step 0 where a variable of the script is not set
                raise _Usage("%s is empty: is a variable of the shell not set?" % name)
    if not rest:
        raise _Usage("exec needs a command")
    format = given["--format"][-1] if given["--format"] else os.environ.get(choose.FORMAT) or None
    rule = (given["--rule"] or [os.environ.get(choose.RULE, "") if format == "custom" else ""])[-1]
    if given["--rule"] and given["--format"] and format != "custom":
        raise _Usage("--rule is for the format custom, not for %s" % format)
    run = (given["--checkpoints"] or [os.environ.get(choose.CHECKPOINTS, "")])[-1]
    return Order(
        command=rest,
        checkpoints=os.path.abspath(run) if run else "",
        format=format,
        rule=rule,
        from_scratch=scratch or os.environ.get("CHAINWATCH_FROM_SCRATCH") == "if_none_intact",
        paths=(*_paths(os.environ.get(choose.PATHS, "")), *(_pair(each) for each in given["--map"])),
        wanted=Wanted(
            command=(given["--preflight"] or [""])[-1],
            free=int(_number("--need-free", given) * 1e9),
            paths=tuple(given["--need-path"]),
            gpus=int(_number("--need-gpus", given)),
        ),
        heartbeat=_number("--heartbeat", given, 30.0),
    )


def _paths(text: str) -> List[Tuple[str, str]]:
    """The configuration's `paths`, as chainwatch hands them to the job."""
    import json

    try:
        given = json.loads(text) if text else {}
    except ValueError:
        raise _Usage("%s is no JSON" % choose.PATHS) from None
    if not isinstance(given, dict):
        raise _Usage("%s is no JSON object" % choose.PATHS)
    return [(str(host), str(inside)) for host, inside in given.items()]


def _pair(text: str) -> Tuple[str, str]:
    host, equals, container = text.partition("=")
    if not equals or not host.startswith("/") or not container.startswith("/"):
        raise _Usage("--map takes HOST=CONTAINER, two absolute paths, not %r" % text)
    return host, container


def _number(name: str, given: Dict[str, List[str]], default: float = 0.0) -> float:
    if not given[name]:
        return default
    try:
        number = float(given[name][-1])
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise _Usage("%s takes a number, not %r" % (name, given[name][-1]))
    return number
