"""Keras tells no end of its training: the last epoch's bar is full, and nothing more is said of an epoch.

    Epoch 10/10
    1875/1875 ━━━━━━━━━━━━━━━━━━━━ 5s 2ms/step - accuracy: 0.98 - loss: 0.05 - val_loss: 0.07

Its bar is printed anew, as a line of its own or after a carriage return, at each update: the two may be far apart.
"""

from __future__ import annotations

import re

SIGNATURE = "completion/keras-last-epoch"
SPECIFICITY = 66
"""As much as a program's own words that it has finished, less than a trainer's."""
_EPOCH = re.compile(rb"Epoch (\d{1,7})/(\d{1,7})[ \t]*\r?\n")
_FULL = re.compile(rb"^ *(\d{1,9})/(\d{1,9}) +(?:\[=+\]|\xe2\x94\x81+|- \d)")
_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
_MOST = 1 << 12
"""Bytes of a bar's line."""


def last_epoch_done(text: bytes, start: int) -> tuple[int, int] | None:
    """Where the line of the full bar of the last epoch stands in `text` from `start` on; None where the last epoch that
    is told is not the last one, or its bar is not full."""
    last = _last_told(text, start)
    if last is None or int(last[1]) != int(last[2]):
        return None
    at = last.end()
    while at < len(text):
        stop = min((i for i in (text.find(b"\n", at), text.find(b"\r", at)) if i >= 0), default=len(text))
        if stop - at <= _MOST:
            bar = _FULL.match(_ANSI.sub(b"", text[at:stop]))
            if bar is not None and bar[1] == bar[2]:
                return at, stop
        at = stop + 1
    return None


def _last_told(text: bytes, start: int) -> re.Match[bytes] | None:
    """The last line that only says which epoch begins."""
    end = len(text)
    while (at := text.rfind(b"Epoch ", start, end)) >= 0:
        if at == start or text[at - 1] in b"\r\n":
            told = _EPOCH.match(text, at)
            if told is not None:
                return told
        end = at
    return None
