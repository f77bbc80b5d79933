"""`NamedTuple` without `typing`, `StrEnum` without `enum`: for what `chainwatch latest` loads at the head of every script.

`typing` brings `re` and takes as long to import as Python takes to start (11 ms of 11 ms, measured); `enum` takes 3 ms
and is no `StrEnum` before Python 3.11. Type checkers see the real ones. Modules on that path import names for
annotations under ``if TYPE_CHECKING`` with a constant of their own.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from enum import StrEnum as StrEnum
    from typing import NamedTuple as NamedTuple
else:

    class _Members(type):
        """Makes each name in capitals of a class body a member, as `enum.StrEnum` does."""

        def __new__(cls, name, bases, body):
            values = {key: value for key, value in body.items() if key.isupper()}
            made = type.__new__(cls, name, bases, {key: value for key, value in body.items() if key not in values})
            type.__setattr__(made, "_of", {})
            for key, value in values.items():
                member = made._of[value] = str.__new__(made, value)
                member.name, member.value = key, value
                type.__setattr__(made, key, member)
            return made

        def __call__(cls, value):
            try:
                return cls._of[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

        def __iter__(cls):
            return iter(cls._of.values())

        def __len__(cls):
            return len(cls._of)

        def __contains__(cls, value):
            return value in cls._of

        def __setattr__(cls, name, value):
            raise AttributeError(f"cannot set {name} of {cls.__name__}")

    class StrEnum(str, metaclass=_Members):
        """Base of a closed set of words; see `enum.StrEnum`."""

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self):
            return type(self), (self.value,)

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            from pydantic_core.core_schema import no_info_after_validator_function

            return no_info_after_validator_function(cls, handler(str))

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
