"""Reading signature files: the built-in families, and the user's own file, with errors that name file and line."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import re2
import yaml

from chainwatch.model.pattern import wrong_with
from chainwatch.model.plain_file import text_of
from chainwatch.model.verdict import Cause, Retry
from chainwatch.signatures.signature import Signature, SignatureError

_FIELDS = {
    "id": str,
    "match": (str, list),
    "cause": str,
    "specificity": int,
    "effect": bool,
    "retry": str,
    "unless": str,
    "after": str,
    "not_after": str,
    "within": int,
    "fallback": bool,
    "notice": bool,
    "warning": bool,
    "survivable": bool,
    "table": str,
    "advice": str,
    "examples": list,
}
_PATTERNS = ("match", "unless", "after", "not_after")
_DEFAULTABLE = frozenset(_FIELDS) - {"id", "match", "examples"}
_TOP = frozenset({"family", "about", "defaults", "signatures"})
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def builtin_signatures() -> tuple[Signature, ...]:
    """Every signature that comes with chainwatch. Its patterns are checked when the matcher compiles them together."""
    folder = resources.files("chainwatch.signatures").joinpath("data")
    found: list[Signature] = []
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".yaml"):
            found += parse_signatures(entry.read_text(encoding="utf-8"), entry.name, check_patterns=False)
    _refuse_doubles(found)
    return tuple(found)


def user_signatures(path: Path) -> tuple[Signature, ...]:
    """The signatures of one file of the user; each of its examples must match. Raises `SignatureError`."""
    try:
        text = text_of(path)
    except OSError as error:
        raise SignatureError(
            f"{path}: cannot be read ({error.strerror}); correct the path of the signature file"
        ) from None
    found = parse_signatures(text, str(path))
    _refuse_doubles(found)
    for signature in found:
        for example in signature.examples:
            if not any(re2.search(pattern, example) for pattern in signature.patterns):
                raise SignatureError(
                    f"{signature.source}: {signature.id}: its own example is not matched: {example!r}; "
                    "correct the pattern or the example"
                )
    return tuple(found)


def parse_signatures(text: str, name: str, *, check_patterns: bool = True) -> list[Signature]:
    """Signatures of one YAML text; `name` is what errors call the file. Raises `SignatureError`."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise SignatureError(f"{where}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if root is None:
        return []
    top = _mapping(root, name, _TOP)
    family = _plain(top["family"][1]) if "family" in top else "user"
    defaults: dict[str, Any] = {}
    if "defaults" in top:
        defaults = _checked(top["defaults"][1], name, _DEFAULTABLE)
        if check_patterns:
            _check_patterns(top["defaults"][1], name, "defaults")
    if "signatures" not in top:
        raise SignatureError(f"{name}:1: has no `signatures:` list")
    node = top["signatures"][1]
    if not isinstance(node, yaml.SequenceNode):
        raise SignatureError(f"{_where(node, name)}: `signatures` must be a list")
    return [_signature(item, name, str(family), defaults, check_patterns) for item in node.value]


def _signature(node: yaml.Node, name: str, family: str, defaults: dict[str, Any], check_patterns: bool) -> Signature:
    values = {**defaults, **_checked(node, name, frozenset(_FIELDS))}
    where = _where(node, name)
    for needed in ("id", "match", "cause", "specificity"):
        if needed not in values:
            raise SignatureError(f"{where}: a signature needs `{needed}`")
    title = f"{family}/{values['id']}"
    patterns = tuple(values["match"]) if isinstance(values["match"], list) else (values["match"],)
    if check_patterns:
        _check_patterns(node, name, title)
    if not 0 <= values["specificity"] <= 100:
        raise SignatureError(f"{where}: {title}: specificity is {values['specificity']}; it goes from 0 to 100")
    if values.get("table", "") not in ("", "xid"):
        raise SignatureError(f"{where}: {title}: table {values['table']!r} is not known; the only table is `xid`")
    return Signature(
        id=title,
        patterns=patterns,
        cause=_word(Cause, values["cause"], "cause", where, title),
        specificity=values["specificity"],
        effect=values.get("effect", False),
        retry=_word(Retry, values["retry"], "retry", where, title) if "retry" in values else None,
        unless=values.get("unless", ""),
        after=values.get("after", ""),
        not_after=values.get("not_after", ""),
        within=values.get("within", 40),
        fallback=values.get("fallback", False),
        notice=values.get("notice", False),
        warning=values.get("warning", False),
        survivable=values.get("survivable", False),
        table=values.get("table", ""),
        advice=values.get("advice", ""),
        examples=tuple(values.get("examples", ())),
        source=where,
    )


def _check_patterns(node: yaml.Node, name: str, title: str) -> None:
    """Each pattern of a signature (or of the defaults), at its own line.

    Contexts (`unless`, `after`, `not_after`) may be empty: there is none.
    """
    for key, (_, value) in _mapping(node, name, frozenset(_FIELDS)).items():
        if key not in _PATTERNS:
            continue
        several = isinstance(value, yaml.SequenceNode)
        if several and not value.value:
            raise SignatureError(f"{_where(value, name)}: {title}: `{key}` has no pattern; one at least is expected")
        for each in value.value if several else (value,):
            pattern = _plain(each)
            if not isinstance(pattern, str):
                raise SignatureError(
                    f"{_where(each, name)}: {title}: patterns are text, not {pattern!r}; put them in quotes"
                )
            wrong = wrong_with(pattern) if pattern or key == "match" else ""
            if wrong:
                raise SignatureError(f"{_where(each, name)}: {title}: {key}: {wrong}")


def _word(kind: Any, value: str, field: str, where: str, title: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise SignatureError(f"{where}: {title}: {field} {value!r} is not known; one of {known}") from None


def _checked(node: yaml.Node, name: str, allowed: frozenset[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, (key_node, value_node) in _mapping(node, name, allowed).items():
        value = _plain(value_node)
        if not isinstance(value, _FIELDS[key]) or (isinstance(value, bool) and _FIELDS[key] is int):  # type: ignore[arg-type]
            raise SignatureError(f"{_where(key_node, name)}: `{key}` has the wrong kind of value: {value!r}")
        values[key] = value
    return values


def _mapping(node: yaml.Node, name: str, allowed: frozenset[str]) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise SignatureError(f"{_where(node, name)}: expected fields here ({', '.join(sorted(allowed))})")
    found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key not in allowed:
            raise SignatureError(
                f"{_where(key_node, name)}: field `{key}` is not known; one of {', '.join(sorted(allowed))}"
            )
        found[key] = (key_node, value_node)
    return found


def _plain(node: yaml.Node) -> Any:
    """Scalars as written (`retry: no` is the word, not False), except true/false and whole numbers."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    text = str(node.value)
    quoted = bool(getattr(node, "style", None))
    if not quoted and text in ("true", "false"):
        return text == "true"
    if not quoted and text.isdigit():
        return int(text)
    return text


def _where(node: yaml.Node, name: str) -> str:
    return f"{name}:{node.start_mark.line + 1}"


def _refuse_doubles(signatures: list[Signature]) -> None:
    for first, second in _pairs(signatures):
        raise SignatureError(f"{second.source}: {second.id} is already defined at {first.source}; give it another id")


def _pairs(signatures: list[Signature]) -> Iterator[tuple[Signature, Signature]]:
    seen: dict[str, Signature] = {}
    for signature in signatures:
        if signature.id in seen:
            yield seen[signature.id], signature
        seen[signature.id] = signature
