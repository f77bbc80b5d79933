"""What a person is told to do is told once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from chainwatch.recovery.decide import _advice


@dataclass
class Said:
    advice: str


@pytest.mark.parametrize(
    ("advice", "told"),
    [
        ("Correct the settings, then `chainwatch retry`.", "Correct the settings, then `chainwatch retry a`."),
        ("Ask the site.", "Ask the site; mend it, then `chainwatch retry a`."),
        ("", "mend it, then `chainwatch retry a`."),
    ],
)
def test_an_advice_is_told_once_with_the_name_of_the_chain(advice: str, told: str) -> None:
    verdict: Any = Said(advice)
    assert _advice(verdict, "mend it, then `chainwatch retry a`.") == told
