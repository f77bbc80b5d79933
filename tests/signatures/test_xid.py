# ruff: noqa: E501 - rows of tables and lines of logs stay whole
"""Xid lines: the number decides, except where the words do."""

from __future__ import annotations

import pytest

from chainwatch.model.verdict import Cause, Retry
from chainwatch.signatures import builtin_matcher

HEAD = "NVRM: Xid (PCI:0000:9b:00): "

ROWS = [
    ("79, pid=1, GPU has fallen off the bus.", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
    ("48, pid=1, An uncorrectable double bit error (DBE) has been detected", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
    ("94, Contained: CE User Channel (0x9)", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
    ("119, Timeout after 6s of waiting for RPC response from GPU4 GSP!", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
    ("31, pid=1, MMU Fault: ENGINE GRAPHICS faulted", Cause.USER_CODE, False, Retry.NO),
    ("13, Graphics SM Warp Exception on (GPC 9): Out Of Range Address", Cause.USER_CODE, False, Retry.NO),
    ("43, pid=1, name=python, Ch 00000008", Cause.USER_CODE, False, Retry.NO),
    ("45, pid=1, Ch 00000001 caused by previous Xid 149", Cause.UNKNOWN, True, Retry.YES),
    ("63, Row Remapper: New row marked for remapping, reset gpu to activate.", Cause.HARDWARE_GPU, True, Retry.YES),
    ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 14", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
    ("144, SAW_MVB Nonfatal XC0 i0 Link 0", Cause.HARDWARE_GPU, True, Retry.YES),
    ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", Cause.HARDWARE_GPU, False,
     Retry.YES_EXCLUDE_NODE),
    ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", Cause.HARDWARE_GPU, True, Retry.YES),
    ("999, something new", Cause.HARDWARE_GPU, False, Retry.YES_EXCLUDE_NODE),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause", "effect", "retry"), ROWS, ids=[row[0][:24] for row in ROWS])
def test_a_code_means(text: str, cause: Cause, effect: bool, retry: Retry) -> None:
    hits = [h for h in builtin_matcher().match((HEAD + text).encode(), lambda _: []) if h.signature.id == "cuda/xid"]
    (hit,) = hits
    assert (hit.signature.cause, hit.signature.effect, hit.signature.retry) == (cause, effect, retry)
    assert hit.extracted["gpu"] == "0000:9b:00"
