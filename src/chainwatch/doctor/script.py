"""What a batch script says: its #SBATCH options and its commands, as far as a shell script can be read without running
it. Never executed, and never expanded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

_SHORT = {
    "J": "job-name",
    "o": "output",
    "e": "error",
    "n": "ntasks",
    "N": "nodes",
    "t": "time",
    "p": "partition",
    "q": "qos",
    "a": "array",
    "D": "chdir",
    "d": "dependency",
    "c": "cpus-per-task",
    "G": "gpus",
    "K": "kill-on-bad-exit",
    "W": "wait",
    "u": "unbuffered",
}
_LAUNCHERS = ("srun", "torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "torch.distributed.run")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*$")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command of the script."""

    line: int
    words: tuple[str, ...]
    after: str = ""
    """What follows it: `|`, `||`, `&&`, `&`, `;` or nothing."""

    @property
    def name(self) -> str:
        """The program, without assignments before it."""
        return next((w for w in self.words if not re.match(r"\w+=", w)), "")

    @property
    def python(self) -> tuple[str, ...]:
        """From the Python interpreter on; empty where there is none."""
        for number, word in enumerate(self.words):
            if _PYTHON.match(word):
                return self.words[number:]
        return ()

    @property
    def trains(self) -> bool:
        """It looks like the long-running command: a launcher, or a Python script."""
        base = {word.rsplit("/", 1)[-1] for word in self.words[:4]}
        if base & set(_LAUNCHERS) and not base & {"echo", "which", "command"}:
            return not (self.name.endswith("srun") and {"hostname", "nvidia-smi", "sleep"} & set(self.words))
        python = self.python
        return bool(python) and (
            any(w.endswith(".py") for w in python) or ("-m" in python and "venv" not in python and "pip" not in python)
        )

    def option(self, long: str, short: str | None = None) -> str | None:
        """The value of an option (empty where it has none); None: not given."""
        for number, word in enumerate(self.words):
            if word.split("=", 1)[0] == f"--{long}":
                return word.split("=", 1)[1] if "=" in word else ""
            if short and re.fullmatch(rf"-{short}\S*", word):
                rest = word[2:]
                return rest or (self.words[number + 1] if number + 1 < len(self.words) else "")
        return None


@dataclass(frozen=True, slots=True)
class Script:
    """A batch script, read."""

    options: dict[str, str] = field(default_factory=dict)
    """#SBATCH options by long name; the last one wins, as in Slurm."""
    option_lines: dict[str, int] = field(default_factory=dict)
    late: tuple[int, ...] = ()
    """Lines of #SBATCH after the first command: Slurm does not read them."""
    commands: tuple[Command, ...] = ()
    exports: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Variables that are set: line and value."""
    lines: tuple[tuple[int, str], ...] = ()
    """Logical lines without comments, continuations joined."""
    shell: str = ""

    def has(self, option: str) -> bool:
        return option in self.options


def read(text: str) -> Script:
    """The script. Whatever the text holds, this returns; what cannot be read is left out."""
    options: dict[str, str] = {}
    where: dict[str, int] = {}
    late: list[int] = []
    begun = False
    physical = text.splitlines()
    inside = _heredocs(physical)
    for number, line in enumerate(physical, 1):
        if number in inside:
            continue
        if re.match(r"#SBATCH(\s|$)", line):
            if begun:
                late.append(number)
                continue
            for name, value in _directives(line[len("#SBATCH") :]):
                options[name], where[name] = value, number
        elif line.strip() and not line.lstrip().startswith("#"):
            begun = True
    logical = tuple(_logical(physical, inside))
    commands = tuple(command for number, line in logical for command in _commands(number, line))
    exports: dict[str, tuple[int, str]] = {}
    for command in commands:
        for word in command.words:
            if match := re.match(r"([A-Za-z_]\w*)=(.*)", word, re.S):
                exports[match[1]] = (command.line, match[2])
            elif word not in {"export", "declare", "-x"}:
                break
    return Script(options, where, tuple(late), commands, exports, logical, physical[0] if physical else "")


def _directives(text: str) -> Iterator[tuple[str, str]]:
    words = _words(text)
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield name, value
        elif len(word) > 1 and word[0] == "-":
            value = word[2:].removeprefix("=")
            if not value and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield _SHORT.get(word[1], word[1]), value
        else:
            return  # a comment, or something that Slurm ends at as well


def _heredocs(physical: list[str]) -> frozenset[int]:
    """Lines that are text for another command: a script that writes a script."""
    inside: set[int] = set()
    end: str | None = None
    for number, line in enumerate(physical, 1):
        if end is not None:
            inside.add(number)
            end = None if line.strip() == end else end
        elif not line.lstrip().startswith("#") and (match := re.search(r"<<-?\s*(['\"]?)(\w+)\1", line)):
            end = match[2]
    return frozenset(inside)


def _logical(physical: list[str], inside: frozenset[int]) -> Iterator[tuple[int, str]]:
    pending, begun = "", 0
    for number, line in enumerate(physical, 1):
        if number in inside or (not pending and line.lstrip().startswith("#")):
            continue
        begun = begun if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole, pending = pending + line, ""
        if whole.strip():
            yield begun, whole
    if pending.strip():
        yield begun, pending


def _commands(number: int, line: str) -> Iterator[Command]:
    words: list[str] = []
    for token in _words(line, punctuation=True):
        if token in {"|", "||", "&&", "&", ";", "|&", ";;", "(", ")", "{", "}", "then", "do", "else"}:
            if words:
                yield Command(number, tuple(words), token)
            words = []
        elif token and set(token) <= set("();<>|&"):
            words.append(token) if "<" in token or ">" in token else None
        else:
            words.append(token)
    if words:
        yield Command(number, tuple(words))


def _words(text: str, punctuation: bool = False) -> list[str]:
    """Shell words; where quotes do not match (a heredoc, a case pattern), the words between spaces."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=punctuation)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return text.split()
