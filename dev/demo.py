"""`make demo`: the night, live in the terminal, on a private Slurm that it boots and ends itself."""

from __future__ import annotations

import signal

if __name__ == "__main__":  # Ctrl-C while the rest is still loaded ends it without a word: nothing was started yet
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from dev.cluster import ClusterError, PrivateCluster, missing_programs
from dev.night import CHAIN, STEPS, Night
from dev.telling import PROLOGUE, Telling


def main() -> int:
    """Play it; the exit code: 0 the chain is done, 1 something went wrong, 130 interrupted."""
    missing = missing_programs()
    if missing:
        print(
            f"demo: {', '.join(missing)} not installed: `make demo` as root installs Slurm's daemons", file=sys.stderr
        )
        return 1
    began = time.monotonic()
    telling = Telling.here(sys.stdout.isatty())
    root = Path(".lab") / time.strftime("demo-%Y%m%d-%H%M%S")
    root.mkdir(parents=True)
    print(PROLOGUE.format(steps=STEPS), end="\n\n", flush=True)

    def tell(sentence: str) -> None:
        for line in telling.stage(time.monotonic() - began, sentence):
            print(line, flush=True)

    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, _interrupt)
    night: Night | None = None
    code = 1
    try:
        with PrivateCluster.boot(root / "slurm", nodes=4, say=tell) as cluster:
            night = Night(cluster, (root / "run").resolve(), tell)
            done = threading.Event()
            echo = threading.Thread(target=_echo, args=(night, telling, done), daemon=True)
            echo.start()
            try:
                night.play()
                code = 0
            finally:
                night.stop()
                done.set()
                echo.join(5)
                _epilogue(night, telling)
    except KeyboardInterrupt:
        print("demo: interrupted; everything that it started is ended", file=sys.stderr)
        code = 130
    except (ClusterError, RuntimeError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
    if night is not None:
        print(f"\nleft to look at: {night.directory}/daemon.log, and what was decided, with the evidence:")
        print(f"  CHAINWATCH_STATE={night.directory}/state {Path(sys.executable).parent}/chainwatch explain {CHAIN} 2")
    return code


def _epilogue(night: Night, telling: Telling) -> None:
    """The table of the attempts, and how the chain stands."""
    history = json.loads(night.chainwatch_or("{}", "history", CHAIN, "--json"))
    print()
    for line in telling.table(history.get("attempts", ())):
        print(line)
    print()
    print(night.chainwatch_or("", "status").rstrip())


def _echo(night: Night, telling: Telling, done: threading.Event) -> None:
    """Print the daemon's lines as they come."""
    shown = 0
    while True:
        ended = done.is_set()
        text = night.log()
        for line in text[shown : text.rfind("\n") + 1].splitlines():
            for part in telling.daemon(line):
                print(part, flush=True)
        shown = text.rfind("\n") + 1
        if ended:
            return
        done.wait(0.3)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
