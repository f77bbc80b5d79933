"""One signature: what a program prints, and what that means."""

from __future__ import annotations

from dataclasses import dataclass

from chainwatch.model.verdict import Cause, Retry


class SignatureError(ValueError):
    """A signature file is wrong; the message names file and line, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One kind of line. All patterns are RE2, searched in a line without colours and rank prefix, case as written."""

    id: str
    """`family/name`, unique."""
    patterns: tuple[str, ...]
    """The line matches if any of these is found in it. Named groups are extracted: node, rank, gpu, xid, file, step,
    host, signal, total, …"""
    cause: Cause
    specificity: int
    """0–100: how much the line says by itself. 90 and more names a fault ("uncorrectable ECC error"), 70–89 a precise
    failure of a program, 50–69 a failure whose reason may lie elsewhere, 30–49 any exception, below that an echo of
    something that happened before (an exit code, a SIGTERM)."""
    effect: bool = False
    """What other processes print because the first one failed: never the cause while anything else is there."""
    retry: Retry | None = None
    """Would the unchanged resubmission help? None: what the cause says in general."""
    unless: str = ""
    """Not where this is found in the same line."""
    after: str = ""
    """Only where this is found in one of the `within` lines above (of the same rank); its named groups count too."""
    not_after: str = ""
    """Not where this is found in one of the `within` lines above, up to the head of the line's own traceback."""
    within: int = 40
    fallback: bool = False
    """Only where no other signature of more than an echo matches the same line: any exception, any logged error."""
    notice: bool = False
    """Slurm or a signal speaks in this line: it is kept among the lines that say who ended the job."""
    warning: bool = False
    """The cause though the program says it as a mere warning: other signatures lose their weight in such a line."""
    survivable: bool = False
    """Scripts and programs often go on after it: where they then fail of something else, that is the cause."""
    table: str = ""
    """`xid`: the NVIDIA table decides cause, specificity and retry by the code in group `xid`."""
    advice: str = ""
    examples: tuple[str, ...] = ()
    """Lines that must match; checked by the tests for built-in families and at load time for the user's own."""
    source: str = ""
    """`file:line` where it is defined."""
