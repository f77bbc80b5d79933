"""NVIDIA's Xid codes: what a number means, and when the words of the line decide more than the number."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources

from chainwatch.model.verdict import Cause, Retry
from chainwatch.signatures.signature import Signature

_UNLISTED = 55
"""Specificity of a code that the table does not know."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One row of the table."""

    code: int
    mnemonic: str
    meaning: str
    kind: str
    """hardware, either, application, effect, informational, by_severity or by_action."""
    specificity: int
    action: str
    """What NVIDIA recommends, in the catalog's words."""
    note: str
    """Where authorities disagree, and which one counts here."""


@lru_cache(maxsize=1)
def xid_table() -> dict[int, Xid]:
    """The table by code."""
    text = resources.files("chainwatch.signatures").joinpath("data/xid.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader((line for line in text.splitlines() if not line.startswith("#")), delimiter="\t")
    return {
        int(row["xid"]): Xid(
            code=int(row["xid"]),
            mnemonic=row["mnemonic"],
            meaning=row["meaning"],
            kind=row["class"],
            specificity=int(row["specificity"]),
            action=row["action"],
            note=row["note"],
        )
        for row in rows
    }


def judge_xid(signature: Signature, code: int, line: str) -> Signature:
    """`signature` with cause, specificity, effect, retry and advice that this code has in this line."""
    entry = xid_table().get(code)
    if entry is None:
        return replace(
            signature,
            cause=Cause.HARDWARE_GPU,
            specificity=_UNLISTED,
            retry=Retry.YES_EXCLUDE_NODE,
            advice=f"Xid {code} is not in chainwatch's table; look it up in NVIDIA's Xid catalog.",
        )
    kind = _kind_in(entry, line)
    advice = f"Xid {code} ({entry.meaning}): {entry.action}."
    if kind == "informational":
        return replace(signature, cause=Cause.HARDWARE_GPU, specificity=12, effect=True, retry=Retry.YES, advice=advice)
    if kind == "effect":
        return replace(
            signature, cause=Cause.UNKNOWN, specificity=entry.specificity, effect=True, retry=Retry.YES, advice=advice
        )
    if kind == "application":
        return replace(signature, cause=Cause.USER_CODE, specificity=entry.specificity, retry=Retry.NO, advice=advice)
    return replace(
        signature,
        cause=Cause.HARDWARE_GPU,
        specificity=entry.specificity,
        retry=Retry.YES_EXCLUDE_NODE,
        advice=advice,
    )


def kind_of(code: int, line: str) -> str:
    """`hardware`, `either`, `application`, `effect` or `informational`; `either` for a code that the table does not know."""
    entry = xid_table().get(code)
    return "either" if entry is None else _kind_in(entry, line)


def _kind_in(entry: Xid, line: str) -> str:
    words = line.lower()
    if entry.kind == "by_severity":
        quiet = "nonfatal" in words or "non-fatal" in words or "corrected" in words.replace("uncorrected", "")
        return "informational" if quiet else "hardware"
    if entry.kind == "by_action":
        words = words.rpartition(" to ")[2]
        acts = ("reset required", "reboot required", "drain", "(0x1)", "(0x2)", "(0x4)")
        return "hardware" if any(word in words for word in acts) else "informational"
    return entry.kind
