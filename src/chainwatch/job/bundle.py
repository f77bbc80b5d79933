"""The job side as one file: a zip of plain Python that any Python from 3.8 on runs, without installing anything."""

from __future__ import annotations

import os
import zipfile
from typing import Iterator, Tuple

from chainwatch.model.plain_file import gives_way

PARTS = (
    "__init__.py", "model/__init__.py", "model/checkpoint.py", "model/light.py", "model/plain_file.py", "job", "checkpoints",
    "cli/__init__.py", "cli/__main__.py", "cli/light.py", "cli/latest.py", "cli/verify.py", "cli/bar.py", "cli/exec.py",
)  # fmt: skip
"""What goes in, relative to the package."""
_START = """\
import sys

if sys.version_info < (3, 8):
    sys.exit("chainwatch: the job side needs Python 3.8 or newer, this is %d.%d" % sys.version_info[:2])
from chainwatch.cli.__main__ import LIGHT, main

if len(sys.argv) < 2 or sys.argv[1] not in LIGHT:
    print("usage: %s %s …" % (sys.argv[0], "|".join(LIGHT)), file=sys.stderr)
    sys.exit(2)
sys.exit(main())
"""
_DATE = (2020, 1, 1, 0, 0, 0)


def write_bundle(path: str, interpreter: str = "/usr/bin/env python3") -> int:
    """Write the file, executable, replaced as a whole; its size in bytes. The same sources give the same bytes.

    Raises OSError, also where PATH is something else than an earlier one; ValueError for an interpreter that is no command.
    """
    if not interpreter.strip() or not interpreter.isprintable():
        raise ValueError("a command is expected as the interpreter, not %r" % interpreter)
    gives_way(path, is_bundle)
    temporary = "%s.%d" % (path, os.getpid())
    try:
        with open(temporary, "wb") as out:
            out.write(b"#!" + interpreter.encode() + b"\n")
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                _add(archive, "__main__.py", _START.encode())
                for name, source in _sources():
                    with open(source, "rb") as file:
                        _add(archive, "chainwatch/" + name, file.read())
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return os.path.getsize(path)


def is_bundle(head: bytes) -> bool:
    """A file that begins so was written by `write_bundle`."""
    return head.startswith(b"#!") and head.partition(b"\n")[2].startswith(b"PK\3\4")


def _sources() -> Iterator[Tuple[str, str]]:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for part in PARTS:
        whole = os.path.join(root, part)
        if os.path.isfile(whole):
            yield part, whole
            continue
        for directory, folders, files in os.walk(whole):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for name in sorted(files):
                if name.endswith(".py"):
                    full = os.path.join(directory, name)
                    yield os.path.relpath(full, root), full


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)
