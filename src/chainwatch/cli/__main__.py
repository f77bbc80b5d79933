"""The entry of `chainwatch`: the commands that run inside batch scripts start before anything heavy is imported."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, List, Optional

LIGHT = {"latest": "latest", "verify": "verify", "exec": "exec"}
"""Command -> module of this folder, each with `main(arguments) -> exit code`."""


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command line; returns the exit code."""
    _open_what_is_closed()
    arguments = sys.argv[1:] if argv is None else argv
    light = LIGHT.get(arguments[0]) if arguments else None
    if argv is None and next((word for word in arguments if not word.startswith("-")), None) == "run":
        _start_through_hangups()
    module: Any = __import__(f"chainwatch.cli.{light or 'app'}", fromlist=("main",))
    code: int = module.main(arguments if light is None else arguments[1:])
    if argv is None and light in ("latest", "verify"):
        # Nothing is left to do but to tear the interpreter down, which takes as long as the answer did.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _open_what_is_closed() -> None:
    """Where a shell closed a standard stream (`>&-`), /dev/null takes its place: nothing that is opened later, a database
    least of all, gets a number that everything prints to."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - for good


def _start_through_hangups() -> None:
    """A SIGHUP that comes while the daemon still imports itself would end it. Nothing is to be remembered: it reads its
    configuration after that, and by then it has a handler that does."""
    import signal

    signal.signal(signal.SIGHUP, lambda *_: None)  # not SIG_IGN, which its children would inherit


if __name__ == "__main__":
    sys.exit(main())
