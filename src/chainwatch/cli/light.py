"""What the light commands share: reading arguments without argparse (it would double their start), and their output."""

from __future__ import annotations

import os
import sys

from chainwatch.model.checkpoint import Checkpoint, RunReport, unknown_sentence
from chainwatch.model.light import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence

    from chainwatch.checkpoints.formats.custom import Rule

DEFAULT_STATE = "~/.local/state/chainwatch"
OK, NONE_THERE, USAGE, NONE_INTACT = 0, 1, 2, 3
"""Exit codes of `latest` and `verify`."""


class Usage(Exception):
    """The command line makes no sense; its text says why."""


class Arguments(NamedTuple):
    """A parsed command line."""

    positional: List[str]
    flags: FrozenSet[str]
    values: Dict[str, str]


def parse(arguments: List[str], flags: FrozenSet[str], values: FrozenSet[str]) -> Arguments:
    """Options of the forms `--flag`, `--name value`, `--name=value`; `--` ends them."""
    positional: List[str] = []
    given: Dict[str, str] = {}
    seen = set()
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            positional.extend(rest)
        elif word in flags:
            seen.add(word)
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            if name not in values:
                raise Usage(f"no such option: {word}")
            if not equals:
                following = next(rest, None)
                if following is None:
                    raise Usage(f"{name} needs a value")
                value = following
            if not value:
                raise Usage(f"{name} is empty: is a variable of the shell not set?")
            given[name] = value
        else:
            positional.append(word)
    return Arguments(positional, frozenset(seen), given)


def seconds(values: Dict[str, str], name: str, default: float) -> float:
    """A number of seconds given as an option."""
    try:
        number = float(values.get(name, default))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Usage(f"{name} takes a number of seconds, not {values[name]!r}")
    return number


FLAGS = frozenset(("--json", "--deep", "--help", "-h"))
VALUES = frozenset(("--format", "--rule", "--settle", "--patience"))
"""Options that every judging command has."""


NO_DIRECTORY = "the current directory is gone: cd to one that exists"


def is_of_no_directory(error: OSError) -> bool:
    """The current directory was removed: os.getcwd() finds it no more, and names no file."""
    return isinstance(error, FileNotFoundError) and error.filename is None


def judging_command(
    arguments: List[str],
    help_text: str,
    answer: Callable[[str, Arguments], int],
    flags: FrozenSet[str] = FLAGS,
    values: FrozenSet[str] = VALUES,
) -> int:
    """The frame of a command that judges one path: `answer(path, arguments)` is called, in a child that is given up
    where the storage stands still; returns the exit code."""
    name = help_text.split()[2]

    def said(work: Callable[[], int]) -> int:
        try:
            return work()
        except (Usage, ValueError) as error:
            say(f"{error} (see chainwatch {name} --help)")
            return USAGE
        except FileNotFoundError as error:
            if not is_of_no_directory(error):
                raise
            say(NO_DIRECTORY)
            return USAGE

    def run() -> int:
        given = parse(arguments, flags, values)
        if given.flags & {"--help", "-h"}:
            sys.stdout.write(help_text)
            return OK
        if len(given.positional) != 1:
            raise Usage(f"{name} takes one path")
        path = given.positional[0]
        if not path:
            raise Usage("the path is empty: is a variable of the shell not set?")
        _as_the_site_allows()
        return _patiently(lambda: said(lambda: answer(path, given)), path, given.values)

    return said(run)


SITE_FILE = "/etc/chainwatch/site.yaml"


def _as_the_site_allows() -> None:
    """On a login node the site's budget for reading holds for a check by hand too; a job reads on its own node.

    Raises ValueError where the site's file cannot be trusted.
    """
    if "SLURM_JOB_ID" in os.environ or not os.path.exists(SITE_FILE):
        return
    try:
        from chainwatch.config.site import load_site  # heavy, and not there where only the job side is installed
    except ImportError:
        return
    from chainwatch.checkpoints.polite import limit

    limit(load_site().bytes_per_second)


def rule_of(values: Dict[str, str]) -> Optional[Rule]:
    """The rule of the format custom: of `--rule`, or of the environment that chainwatch gave the job.

    Raises ValueError, Usage.
    """
    named = values.get("--format")
    given = values.get("--rule") or (os.environ.get("CHAINWATCH_RULE") if named == "custom" else None)
    if given is None:
        if named == "custom":
            raise Usage("the format custom needs --rule FILE: which files a checkpoint must have")
        return None
    if named not in (None, "custom"):
        raise Usage(f"--rule is for the format custom, not for {named}")
    from chainwatch.checkpoints.formats.custom import Rule

    try:
        return Rule.read(given)
    except OSError as error:
        raise Usage(error_text(error, given)) from None


def _patiently(work: Callable[[], int], path: str, values: Dict[str, str]) -> int:
    """`work`, which reads `path` and prints, in a child that is given up where the storage stands still."""
    from chainwatch.checkpoints.patience import PATIENCE, Killed, StandsStill, bounded

    patience = seconds(values, "--patience", PATIENCE)
    if not patience:
        return work()
    try:
        return bounded(work, patience)
    except StandsStill:
        say(f"{path} did not answer for {patience:g} s: its storage hangs; try again when it is back (--patience)")
    except Killed as reason:
        say(f"{path} was not judged to the end: the reader was ended by {reason} (out of memory?)")
    return USAGE


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"chainwatch: {text}\n")


def print_path(path: str) -> None:
    """A path on stdout, byte for byte."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), os.fsencode(path) + b"\n")


def print_json(document: Dict[str, Any]) -> None:
    """One JSON document on stdout."""
    import json

    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def document(report: RunReport) -> Dict[str, Any]:
    """The JSON of a report."""
    return {
        "path": report.path,
        "format": report.format,
        "checkpoints": [_checkpoint(each) for each in report.checkpoints],
        "newest_intact": short(report.newest_intact),
    }


def short(checkpoint: Optional[Checkpoint]) -> Optional[Dict[str, Any]]:
    """`{"path", "step"}`, or None."""
    return None if checkpoint is None else {"path": checkpoint.path, "step": checkpoint.step}


def _checkpoint(each: Checkpoint) -> Dict[str, Any]:
    return {
        "path": each.path,
        "step": each.step,
        "format": each.format,
        "status": each.status.value,
        "reason": each.reason,
        "unverifiable": each.unverifiable,
        "in_progress_until": _moment(each.settles) if each.settles else None,
        "warnings": list(each.warnings),
        "problems": [problem._asdict() for problem in each.problems],
    }


def _moment(seconds: float) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def waits(each: Checkpoint, judge: str = " (--settle 0 judges it now)") -> str:
    """Why a checkpoint is in progress, and until when: it is judged by its bytes alone then."""
    if not each.settles:
        return "a process holds it open for writing: in progress as long as that lives"
    import time

    ago = max(0, int(time.time() - each.modified))
    at = time.strftime("%H:%M:%S", time.gmtime(each.settles))
    return f"it changed {ago} s ago: in progress until {at} UTC, if nothing changes any more{judge}"


def exit_code(report: RunReport) -> int:
    """0: an intact checkpoint is there; 3: there are some, none intact, or what looks like some; 1: there is none."""
    if report.newest_intact is not None:
        return OK
    return NONE_INTACT if report.checkpoints or report.unknown else NONE_THERE


def say_unknown(path: str, names: Sequence[str]) -> None:
    """That files look like saves of no known format, and what to do."""
    advice = "describe them with --rule (see `chainwatch verify --help`), or name --format"
    say(f"{unknown_sentence(path, names)}: {advice}")


def error_text(error: OSError, path: str) -> str:
    """Why PATH cannot be read, and what to do."""
    return f"{path} cannot be read: {error.strerror or error}; check the path and its permissions"
