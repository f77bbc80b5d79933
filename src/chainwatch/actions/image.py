"""Which container image a batch script names: to say that it was changed, never to open it. Pure.

pyxis' `--container-image`, the image argument of apptainer/singularity, docker, podman and their like; shell variables are
filled in where the script or the environment sets them plainly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_OPTION = re.compile(r"--(?:container-image|image)(?:=|\s+)(\"[^\"]*\"|'[^']*'|[^\s\\]+)")
_RUN = re.compile(
    r"\b(?:apptainer|singularity|docker|podman|podman-hpc|nerdctl|shifter|sarus|enroot|ch-run)\s+(?:[^#\n]*?)?"
    r"(?:exec|run|shell|start)?\b([^#\n]*)"
)
_IMAGE = re.compile(
    r"(?:docker|oras|library|shub|oci|docker-archive|podman)://[^\s\"']+|[^\s\"']+\.(?:sif|sqsh|sqfs|simg|img)\b"
    r"|[\w.-]+(?:\.[\w.-]+|:\d+)+/[\w./-]+(?::[\w.-]+|@sha256:[0-9a-f]+)"
)
_SET = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s;#]*)", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|([A-Za-z_]\w*))")
_ROUNDS = 4
"""Variables of variables are followed so deep."""


def container_image(script: str, options: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> str:
    """The image as the script names it; empty where it names none. Later options win, as with sbatch."""
    text = script.replace("\\\n", " ")
    known = dict(environment or {})
    known |= {name: _bare(value) for name, value in _SET.findall(text) if "$(" not in value and "`" not in value}
    named = [*_OPTION.findall(text), *_OPTION.findall(" ".join(options))]
    if not named:
        runs = (_filled(words, known) for words in _RUN.findall(text))
        named = [found for words in runs for found in _IMAGE.findall(words)][:1]
    return _filled(_bare(named[-1]), known) if named else ""


def _filled(text: str, known: Mapping[str, str]) -> str:
    for _ in range(_ROUNDS):
        filled = _VARIABLE.sub(lambda m: known.get(m[1] or m[3], m[2] if m[2] is not None else m[0]), text)
        if filled == text:
            break
        text = filled
    return text


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word
