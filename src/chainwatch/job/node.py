"""What a node says of itself with each beat: how far its task is, and how its GPUs are where a tool shows them."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any, Dict, List, Mapping, Optional

GPU_EVERY = 600.0
"""Seconds between two questions to nvidia-smi: it costs a tenth of a second of a core."""
_SECONDS = 20.0
_FIELDS = (
    ("index", "index"),
    ("ecc", "ecc.errors.uncorrected.volatile.total"),
    ("temperature", "temperature.gpu"),
    ("throttle", "clocks_throttle_reasons.active"),
    ("pcie_width", "pcie.link.width.current"),
    ("pcie_width_max", "pcie.link.width.max"),
)
"""Our word, and the driver's. Older drivers do not know all of them; then the first three are asked for."""
_ALWAYS = 3


class NodeFacts:
    """Gathers the facts of one node. Whatever cannot be read is left out."""

    def __init__(self, node: str, step: str, beat_file: str, environment: Mapping[str, str]) -> None:
        """`beat_file`: what the program of this task writes by `heartbeat(step=…)`."""
        self._who = {"node": node, "slurm_step": step}
        self._beat_file = beat_file
        self._environment = environment
        self._gpus: Optional[List[Dict[str, Any]]] = None
        self._asked = float("-inf")

    def __call__(self) -> Dict[str, Any]:
        facts: Dict[str, Any] = dict(self._who)
        said = self._said()
        for name in ("step", "phase"):
            if name in said:
                facts[name] = said[name]
        if time.monotonic() - self._asked >= GPU_EVERY:
            self._asked = time.monotonic()
            self._gpus = gpus(self._environment)
        if self._gpus is not None:
            facts["gpu_count"] = len(self._gpus)
            facts["gpus"] = self._gpus
        return facts

    def _said(self) -> Mapping[str, Any]:
        try:
            with open(self._beat_file) as file:
                said = json.loads(file.read(65536))
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}


def gpus(environment: Mapping[str, str]) -> Optional[List[Dict[str, Any]]]:
    """The GPUs that nvidia-smi lists, each with what is known of it; None where there is no such tool or no answer."""
    for fields in (_FIELDS, _FIELDS[:_ALWAYS]):
        query = ["nvidia-smi", "--query-gpu=" + ",".join(word for _, word in fields), "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                query,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0:
            rows = [row.split(",") for row in done.stdout.decode("utf-8", "replace").splitlines() if row.strip()]
            return [_gpu([name for name, _ in fields], row) for row in rows]
    return None


def _gpu(names: List[str], cells: List[str]) -> Dict[str, Any]:
    read = {name: _value(cells[at].strip()) for at, name in enumerate(names) if at < len(cells)}
    return {name: value for name, value in read.items() if value is not None}


def _value(cell: str) -> Any:
    """A number, or a word; None for what the card does not have (`[N/A]`, `[Not Supported]`)."""
    if cell.isdigit():
        return int(cell)
    return None if not cell or cell.startswith("[") or cell == "N/A" else cell
