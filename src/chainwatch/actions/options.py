"""sbatch's options, as words on a command line and as #SBATCH lines: enough to find, join and replace them.

Option table: sbatch(1) of 20.11 to 26.05 (`sbatch.c`/`slurm_opt.c`, `has_arg`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_SHORT = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
    "d": "dependency", "D": "chdir", "e": "error", "F": "nodefile", "G": "gpus", "i": "input", "J": "job-name",
    "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks", "o": "output",
    "p": "partition", "q": "qos", "S": "core-spec", "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_FLAGS_SHORT = frozenset("hHIkOQsuvVW")
_FLAGS = frozenset(
    re.findall(
        r"[\w-]+",
        """contiguous disable-stdout-job-summary exact help hold ignore-pbs no-bell no-kill no-requeue overcommit
        oversubscribe parsable quiet reboot requeue spread-job test-only usage use-min-nodes verbose version wait
        wait-all-nodes consolidate-segments external-launcher""",
    )
)
_OPTIONAL = frozenset({"exclusive", "get-user-env", "nice", "no-kill", "propagate", "resv-ports", "stepmgr"})
"""Long options whose value is optional, so only ever attached by `=`."""
_VALUED = frozenset(
    re.findall(
        r"[\w-]+",
        """account acctg-freq array batch bb bbf begin chdir cluster clusters cluster-constraint comment constraint
        container container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
        dependency distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus
        gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses
        mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu network nodefile nodelist nodes ntasks
        ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode output partition
        power prefer priority profile qos reservation resources segment signal sockets-per-node switches
        thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid wait-for-switch wckey workdir
        wrap""",
    )
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its long name and value (None for a flag)."""

    name: str
    value: str | None
    words: tuple[str, ...]


NEXT = ":"
"""Stands between the options of two components of a het job; among options it is one of that name, without a value."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`sbatch [options] SCRIPT [args]`, taken apart."""

    options: tuple[Option, ...]
    script: str | None
    args: tuple[str, ...]

    @property
    def option_words(self) -> tuple[str, ...]:
        return tuple(w for o in self.options for w in o.words)


def parse(words: Sequence[str]) -> CommandLine:
    """Take an sbatch command line (without `sbatch`) apart. Raises ValueError where an option's value is missing."""
    options: list[Option] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            index += 1
            break
        if word == NEXT:
            options.append(Option(NEXT, None, (NEXT,)))
            index += 1
            continue
        if not word.startswith("-") or word == "-":
            break
        taken, option = _one(words, index)
        options.append(option)
        index += taken
    rest = list(words[index:])
    return CommandLine(tuple(options), rest[0] if rest else None, tuple(rest[1:]))


def _one(words: Sequence[str], index: int) -> tuple[int, Option]:
    word = words[index]
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        name = _full(name)
        if equals:
            return 1, Option(name, value, (word,))
        if name in _FLAGS or name in _OPTIONAL:
            return 1, Option(name, None, (word,))
        return _with_next(words, index, name)
    letter = word[1]
    if letter in _FLAGS_SHORT:
        if len(word) > 2 and letter != "k":
            return 1, Option(letter, None, (word,))
        return 1, Option(
            {"H": "hold", "W": "wait", "Q": "quiet", "s": "oversubscribe"}.get(letter, letter), None, (word,)
        )
    name = _SHORT.get(letter, letter)
    if len(word) > 2:
        return 1, Option(name, word[2:].removeprefix("="), (word,))
    return _with_next(words, index, name)


def _full(name: str) -> str:
    """The option that an unambiguous beginning of its name means (getopt_long): `--comm=x` is a comment too."""
    every = _FLAGS | _OPTIONAL | _VALUED
    if name in every or name.startswith("cw-"):
        return name
    meant = [known for known in every if known.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def _with_next(words: Sequence[str], index: int, name: str) -> tuple[int, Option]:
    if index + 1 >= len(words):
        raise ValueError(f"sbatch's option {words[index]} needs a value")
    return 2, Option(name, words[index + 1], (words[index], words[index + 1]))


def script_options(text: str) -> tuple[Option, ...]:
    """The options of a script's #SBATCH lines; of a het job those of its first component, which leads it.

    A line that cannot be taken apart is left to sbatch to complain about.
    """
    return tuple(option for _, option in _placed(text))


def script_line(text: str, name: str) -> int | None:
    """The line of a script whose #SBATCH option of this name counts: the last one; None where there is none."""
    return max((line for line, option in _placed(text) if option.name == name), default=None)


def is_het(text: str) -> bool:
    """The script asks for a het job: several components, each a job of its own under one leader."""
    return any(_NEXT_COMPONENT.match(line) for _, line in _directives(text))


def _placed(text: str) -> Iterator[tuple[int, Option]]:
    """The script's options, each with its line."""
    for number, line in _directives(text):
        if _NEXT_COMPONENT.match(line):
            return
        try:
            found = parse(shlex.split(line, comments=True)).options
        except ValueError:
            continue
        yield from ((number, option) for option in found)


def _directives(text: str) -> Iterator[tuple[int, str]]:
    """What stands on #SBATCH lines, with their numbers. Slurm reads them up to the first line that is no comment and not
    blank."""
    for number, line in enumerate(text.splitlines(), 1):
        if number > 1 and line.strip() and not line.lstrip().startswith("#"):
            return
        match = re.match(r"#SBATCH\s+(.*)", line)
        if match:
            yield number, match.group(1)


_NEXT_COMPONENT = re.compile(r"(?:hetjob|packjob)\b")


def components(options: Iterable[Option]) -> list[tuple[Option, ...]]:
    """The options of each component of a het job; of any other job all of them, as one."""
    groups: list[list[Option]] = [[]]
    for option in options:
        if option.name == NEXT:
            groups.append([])
        else:
            groups[-1].append(option)
    return [tuple(group) for group in groups]


def last(options: Iterable[Option], name: str) -> str | None:
    """The value that counts: the last one given, of a het job for its first component, which leads it.

    A flag counts as an empty string; None where it is absent.
    """
    value: str | None = None
    for option in components(options)[0]:
        if option.name == name:
            value = option.value or ""
    return value


def without(options: Iterable[Option], *names: str) -> tuple[str, ...]:
    """The options as words again, all but those named."""
    return tuple(w for o in options if o.name not in names for w in o.words)


def leading(words: Iterable[str], *more: str) -> tuple[str, ...]:
    """Words of options with `more` behind those of the first component: the others have what it has, but for what they
    say themselves (seen on 22.05)."""
    given = list(words)
    at = given.index(NEXT) if NEXT in given else len(given)
    return (*given[:at], *more, *given[at:])
