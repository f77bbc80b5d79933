"""The entry of `chainwatch`: the commands that run inside batch scripts start before anything heavy is imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, List, Optional

LIGHT = {"latest": "latest", "verify": "verify", "exec": "exec"}
"""Command -> module of this folder, each with `main(arguments) -> exit code`."""


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    light = LIGHT.get(arguments[0]) if arguments else None
    module: Any = __import__(f"chainwatch.cli.{light or 'app'}", fromlist=("main",))
    code: int = module.main(arguments if light is None else arguments[1:])
    return code


if __name__ == "__main__":
    sys.exit(main())
