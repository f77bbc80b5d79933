"""`NamedTuple` without `typing`: for modules that `chainwatch latest` loads at the head of every batch script.

`typing` brings `re` and takes as long to import as Python takes to start (11 ms of 11 ms, measured). Type checkers see
the real one. Modules on that path import names for annotations under ``if TYPE_CHECKING`` with a constant of their own.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Meta(type):
        """Makes a class body with annotations into a named tuple, as `typing.NamedTuple` does."""

        def __new__(cls, name, bases, body):
            fields = list(body.get("__annotations__", ()))
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key, value in body.items():
                if key not in fields and key not in ("__module__", "__qualname__"):
                    setattr(made, key, value)
            made.__annotations__ = dict(body.get("__annotations__", {}))
            return made

    class NamedTuple:
        """Base of a named tuple; see `typing.NamedTuple`."""

        @classmethod
        def __mro_entries__(cls, bases):
            return (cls._root,)

    NamedTuple._root = type.__new__(_Meta, "NamedTuple", (), {})
    NamedTuple = NamedTuple()
