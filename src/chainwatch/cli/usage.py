"""What is wrong with a command line, in one sentence: the words of the library that takes it apart reach nobody."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

_SAID = (
    (r"Got unexpected extra arguments?\(?s?\)? \((.*)\)", r"too many words: \1"),
    (r"No such command '(.*?)'\..*", r"no such command: \1"),
    (r"Missing command\.", "name a command"),
    (r"Option '(.*)' requires an argument\.", r"\1 needs a value"),
    (r"Option '(.*)' does not take a value\.", r"\1 takes no value"),
)

_MEANT = {
    "status": "list ls ps queue show top",
    "logs -f": "tail follow watch",
    "explain": "why describe info",
    "stop --cancel": "cancel kill scancel terminate",
    "submit": "start add launch new",
    "run": "daemon serve up",
    "check": "validate config test",
    "resume": "unpause continue",
    "retry": "restart resubmit requeue",
    "forget": "rm remove delete",
    "--version": "version",
}
_OURS = {word: ours for ours, words in _MEANT.items() for word in words.split()}


def no_such_command(word: str, known: Iterable[str]) -> str:
    """What to say of a command that does not exist: what a word of another tool means here, or the nearest one."""
    near = [_OURS[word]] if word in _OURS else difflib.get_close_matches(word, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else "chainwatch --help lists them"
    return f"no such command: {word}; {hint}"


def sentence(error: BaseException) -> str | None:
    """For people; None where the error is none of a command line."""
    context, message = getattr(error, "ctx", None), getattr(error, "message", None)
    if not hasattr(error, "format_message") or not isinstance(message, str):
        return None
    path = getattr(context, "command_path", "chainwatch")
    return f"{_said(error, ' '.join(message.split()))} (see {path} --help)"


def wants_help(error: BaseException) -> bool:
    """Nothing was typed, and the help is the answer."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _said(error: Any, message: str) -> str:
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        near = getattr(error, "possibilities", None)
        return f"no such option: {error.option_name}" + (f"; did you mean {' or '.join(sorted(near))}?" if near else "")
    if kind == "MissingParameter":
        return f"{_name(parameter)} is missing"
    if parameter is not None:
        return f"{_name(parameter)}: {message}"
    for pattern, said in _SAID:
        if re.fullmatch(pattern, message):
            return re.sub(pattern, said, message)
    return f"{message[:1].lower()}{message[1:].rstrip('.')}"


def _name(parameter: Any) -> str:
    """As it is written in the usage line."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper()).strip("[]{}")
