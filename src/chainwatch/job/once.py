"""Something that one task of many does and all learn of, over a shared file system.

`mkdir` is atomic on every network file system, so the task whose mkdir succeeds does the work and leaves its answer in a
file; the others wait for that file.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict

from chainwatch.job.place import read_json, write_json


class NoAnswer(Exception):
    """The task that took the work left no answer; the text says so."""


def once(
    directory: str,
    name: str,
    work: Callable[[], Dict[str, Any]],
    patience: float = 600.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Dict[str, Any]:
    """What `work` gave, in whichever task ran it. Its answer is JSON.

    Raises NoAnswer after `patience` seconds, OSError where the directory cannot be used.
    """
    path = os.path.join(directory, name + ".json")
    os.makedirs(directory, exist_ok=True)
    try:
        os.mkdir(path + ".taken")
    except FileExistsError:
        return _wait(directory, path, patience, sleep)
    answer = work()
    write_json(path, answer)
    return answer


def _wait(directory: str, path: str, patience: float, sleep: Callable[[float], None]) -> Dict[str, Any]:
    end = time.monotonic() + patience
    pause = 0.1
    while True:
        os.listdir(directory)  # makes NFS look again at what it remembers as missing
        answer = read_json(path)
        if answer is not None:
            return answer
        if time.monotonic() > end:
            raise NoAnswer("the task that took it left no answer in %s within %d s" % (path, patience))
        sleep(pause)
        pause = min(2.0, pause * 1.5)
