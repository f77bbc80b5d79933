"""HTML as values: every text is escaped unless it came out of `tag` itself."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from chainwatch.model.text import clean


class Markup(str):
    """Text that is HTML already. Made by `tag` only."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | int | float | Iterable[Child] | None"
_VOID = frozenset({"meta", "link", "br", "input", "rect", "line", "polyline", "circle", "path"})
_OPEN = frozenset({"meta", "link", "br", "input"})
_CASED = frozenset({"viewBox", "preserveAspectRatio", "patternUnits"})


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """One element. `class_` is class, `_` in names becomes `-`; an attribute that is None or False is left out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{given}>" if name in _OPEN else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{text(children)}</{name}>")


def text(child: Child) -> Markup:
    """The child, escaped: logs, names and messages are data, whatever they look like."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return Markup(escape(clean(str(child), 20_000)))
    return Markup("".join(text(one) for one in child))


def document(title: str, *body: Child, refresh: int | None = 60) -> Markup:
    """A whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="refresh", content=refresh) if refresh else None,
        tag("title", title),
        tag("link", rel="stylesheet", href="/style.css"),
    )
    skip = tag("a", "Skip to the content", class_="skip", href="#content")
    return Markup("<!DOCTYPE html>" + tag("html", head, tag("body", skip, *body), lang="en"))


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key if key in _CASED else key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(clean(str(value), 5000, one_line=True))}"'
