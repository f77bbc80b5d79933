"""`make demo`: the night, live in the terminal, on a private Slurm that it boots and ends itself."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from dev.cluster import ClusterError, PrivateCluster, missing_programs
from dev.night import CHAIN, Night

_COLOURS = {"demo": "\033[1;36m", "watch": "", "end": "\033[0m"}


def main() -> int:
    """Play it; the exit code: 0 the chain is done, 1 something went wrong, 130 interrupted."""
    missing = missing_programs()
    if missing:
        print(
            f"demo: {', '.join(missing)} not installed: `make demo` as root installs Slurm's daemons", file=sys.stderr
        )
        return 1
    root = Path(".lab") / time.strftime("demo-%Y%m%d-%H%M%S")
    root.mkdir(parents=True)
    began = time.monotonic()

    def tell(sentence: str) -> None:
        colour, end = (_COLOURS["demo"], _COLOURS["end"]) if sys.stdout.isatty() else ("", "")
        for line in sentence.splitlines():
            print(f"{colour}[{time.monotonic() - began:5.1f} s] {line}{end}", flush=True)

    signal.signal(signal.SIGTERM, _interrupt)
    night: Night | None = None
    code = 1
    try:
        with PrivateCluster.boot(root / "slurm", nodes=4, say=tell) as cluster:
            night = Night(cluster, (root / "run").resolve(), tell)
            done = threading.Event()
            echo = threading.Thread(target=_echo, args=(night, done), daemon=True)
            echo.start()
            try:
                night.play()
                code = 0
            finally:
                night.stop()
                done.set()
                echo.join(5)
                print()
                print(night.chainwatch_or("", "history", CHAIN))
                print(night.chainwatch_or("", "status"))
    except KeyboardInterrupt:
        print("demo: interrupted; everything that it started is ended", file=sys.stderr)
        code = 130
    except (ClusterError, RuntimeError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
    if night is not None:
        print(
            f"left to look at: {night.directory}/daemon.log, {night.directory}/state (CHAINWATCH_STATE), {root}/slurm"
        )
    return code


def _echo(night: Night, done: threading.Event) -> None:
    """Print the daemon's lines as they come."""
    shown = 0
    while True:
        ended = done.is_set()
        text = night.log()
        for line in text[shown : text.rfind("\n") + 1].splitlines():
            print(f"          | {line}", flush=True)
        shown = text.rfind("\n") + 1
        if ended:
            return
        done.wait(0.3)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
