"""`chainwatch latest RUN_DIR`: the path of the newest intact checkpoint, for use inside a batch script."""

from __future__ import annotations

import os

from chainwatch.cli.light import (
    NONE_INTACT,
    NONE_THERE,
    OK,
    USAGE,
    Arguments,
    document,
    error_text,
    judging_command,
    print_json,
    print_path,
    rule_of,
    say,
    say_unknown,
    seconds,
    waits,
)
from chainwatch.model.checkpoint import Status

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import List, Optional

    from chainwatch.checkpoints.formats.custom import Rule
    from chainwatch.model.checkpoint import Checkpoint

HELP = """\
usage: chainwatch latest RUN_DIR [--format NAME | --rule FILE] [--json] [--deep] [--settle SECONDS] [--patience SECONDS]

Prints the path of the newest intact checkpoint under RUN_DIR and nothing else:

    RESUME=$(chainwatch latest "$RUN")
    case $? in
      0) args="--resume $RESUME" ;;
      1) args="" ;;                      # no checkpoint yet: start fresh
      *) exit 1 ;;                       # some exist, none is intact: a person must look
    esac

Exit codes: 0 found; 1 no checkpoint exists yet; 3 some exist and none is intact (yet: one in
progress is not), or files look like saves of no known format; 2 usage, or RUN_DIR cannot be read.
A RUN_DIR that does not exist is exit 1 where its parent does, else 2: a mount may be gone. Make it once, by hand.
  --format NAME      judge only checkpoints of that format (default: found by itself; in a job of a chain what its
                     configuration says of RUN_DIR)
  --rule FILE        YAML or JSON of your own rule for checkpoints of no known format (which files must exist)
  --json             the answer as JSON, with the checkpoints that were passed over
  --deep             read all bytes and verify every checksum
  --settle SECONDS   an unfinished checkpoint that changed within this time is in progress, and judged when nothing has
                     changed for so long (default 300; 0 judges it now)
  --patience SECONDS storage that stands still this long is given up, exit code 2 (default 60; 0: wait for ever)
"""


def main(arguments: List[str]) -> int:
    """Run the command; returns the exit code."""
    return judging_command(arguments, HELP, _latest)


def _latest(path: str, given: Arguments) -> int:
    from chainwatch.checkpoints.verify import SETTLE, Options, check_format, search, unknown_at
    from chainwatch.model.checkpoint import RunReport

    where = os.path.abspath(path)
    rule = rule_of(given.values)
    if rule is None and "--format" not in given.values:
        rule = _of_the_chain(where, given)
    wanted = given.values.get("--format") if rule is None else "custom"
    if rule is None:
        check_format(wanted)
    avoid = frozenset(each for each in os.environ.get("CHAINWATCH_AVOID", "").split(":") if each)
    options = Options(
        deep="--deep" in given.flags,
        format=wanted,
        settle=seconds(given.values, "--settle", SETTLE),
        custom=rule,
        avoid=avoid,
    )
    try:
        found, passed = search(where, options)
    except FileNotFoundError as error:
        if not os.path.isdir(os.path.dirname(where)) or os.path.lexists(where):
            say(error_text(error, path))
            return USAGE
        found, passed = None, []
    except OSError as error:
        say(error_text(error, path))
        return USAGE
    if "--json" in given.flags:
        judged = tuple(passed) if found is None else (*passed, found)
        print_json(document(RunReport(where, wanted or (found.format if found else None), judged, found)))
    elif found is not None:
        print_path(found.path)
    newest = max(passed, key=lambda each: each.step or -1, default=None)
    if found is not None:
        if newest is not None and (newest.step or -1) > (found.step or -1):
            say(f"step {newest.step} is passed over, it is {newest.status.value.replace('_', ' ')}: {_why(newest)}")
        return OK
    if newest is None:
        unknown = unknown_at(where, options)
        if unknown:
            say_unknown(path, unknown)
            return NONE_INTACT
        say(f"no checkpoint under {path} yet")
        return NONE_THERE
    say(f"none of {len(passed)} checkpoints under {path} is intact; the newest: {_why(newest)}")
    return NONE_INTACT


def _of_the_chain(where: str, given: Arguments) -> Optional[Rule]:
    """In a job of a chain, and asked for the chain's own directory, the chain's configuration says how to judge it: a rule
    (returned) or a format (put into `given`). Else checkpoints that the daemon sees would be none here: a fresh start."""
    run = os.environ.get("CHAINWATCH_CHECKPOINTS")
    if not run or os.path.realpath(run) != os.path.realpath(where):
        return None
    if text := os.environ.get("CHAINWATCH_RULE"):
        from chainwatch.checkpoints.formats.custom import Rule

        return Rule.read(text)
    if named := os.environ.get("CHAINWATCH_FORMAT"):
        given.values["--format"] = named
    return None


def _why(each: Checkpoint) -> str:
    return f"{each.reason}; {waits(each)}" if each.status is Status.IN_PROGRESS else each.reason
