"""`python -m chainwatch` is `chainwatch`."""

from __future__ import annotations

import sys

from chainwatch.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
