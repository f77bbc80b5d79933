"""Evidence to verdict: pure functions."""

from chainwatch.diagnosis.causes import CAUSES, CauseWords
from chainwatch.diagnosis.completion import judge_completion
from chainwatch.diagnosis.ends import diagnose
from chainwatch.diagnosis.fingerprint import fingerprint, normalise

__all__ = ["CAUSES", "CauseWords", "diagnose", "fingerprint", "judge_completion", "normalise"]
