"""How a line is meant: as a failure, as a warning, as something that the program got over, or as a text that it shows."""

from __future__ import annotations

import re

_WARNING = re.compile(
    rb"\b\w*Warning: "  # Python's warnings module
    rb"|(?:^|[\s\[|(:;-])(?:WARNING|WARN|INFO|DEBUG)(?:[\]|):;-]|\s|$)"  # loggers, in all their orders
    rb"|^\[?[WI](?:\d{4})? |: W (?:tensorflow|external|\w+/)"  # glog, c10d, TensorFlow
    rb"|^(?:[\w./-]+: )?(?:[Ww]arning|[Ii]nfo|NOTE|[Nn]otice)(?::| -)"
)
_INFORMATION = re.compile(rb"(?:^|[\s\[|(:;-])(?:INFO|DEBUG)(?:[\]|):;-]|\s|$)|^\[?I(?:\d{4})? ")
_AN_ERROR = re.compile(rb"(?i)exception|error\b")
_NO_WARNING = re.compile(rb"NCCL WARN|^INFO: task |\b(?:ERROR|CRITICAL|FATAL|Error|Exception): ")
"""NCCL says everything that failed as WARN, the kernel says of a hung task INFO."""
_HANDLED = re.compile(
    rb"(?i)\b(?:skipping|skipped|ignoring|continuing|retrying|rebuilding|recovering|proceeding)\b(?! (?:failed|is not))"
    rb"|\bignored\b\W*$|[,;(] ?(?:was |is )?(?:ignored|recovered|excluded|restarted)\b"
    rb"|\b(?:will (?:be )?(?:retr(?:y|ied)|skip(?:ped)?)|retry in|fall(?:ing|s)? back (?:to|on)|out of service)\b"
    rb"|\bbuilding from source\b|\boptional\b|\(second (?:try|attempt)|\b(?:are|is) (?:lost|left out)$|\bwithout it$"
    rb"|\btrying (?:the |an?)?(?:next|one|previous|other|again)\b"
    rb"|, using (?:an? |the )?(?:default|blank|empty|old|previous|cached|last|other)\b"
)
_NOT_HANDLED = re.compile(
    rb"(?i)giv(?:e|es|ing) up|no more (?:tries|retries)|too many|exceed"
    rb"|\b(?:not|without|stop(?:ped)?|instead of) (?:retry|skipp|continu)"
)
_WELL = re.compile(
    rb"(?i)^(?!\+ )(?=\W*\w+\W+\w)"
    rb"(?!.*(?:fail|error|crash|core|abort|kill|log\b|\bjob\b|traceback|exit|nccl|processgroup|c10d))"
    rb".*\b(?:saved|written|wrote|succeeded|successful(?:ly)?|finished|completed|done|ok)\b"
)
_SHOWN = re.compile(
    rb"^\W{0,4}(?i:prompt|question|answer|completion|sample(?: text| \d+)?|generated(?: text| \d+)?|hyp(?:othesis)?|decoded"
    rb"|prediction|transcript|reference|instruction|caption|passage|assistant|human|arg(?:ument)?s|class(?:es| names)|labels"
    rb"|categories"
    rb"|vocab(?:ulary)?)(?: ?\d+)?\s*[:=] ?\S"
    rb"|\b(?i:prompt|completion|question|answer|instruction|generated_text)[\"']?: ?[\"']"
    rb"|^[-+] {3,}\S|^@@ -\d"
    rb"|^(?:PASSED|XFAIL|XPASS|SKIPPED)\b|^\S+::\w+.* (?:PASSED|XFAIL|XPASS|SKIPPED)\b"
)
"""Samples, lists and settings that a program prints, differences between sources, and tests that went as was expected."""

_RAISED = re.compile(rb"(?:\w+\.)*\w*(?:Error|Exception)\b")


def is_warning(text: bytes) -> bool:
    """The program itself calls this line a warning, or less: it went on after it. `text` is without prefixes."""
    head = text[:400]
    return _WARNING.search(head) is not None and _NO_WARNING.search(head) is None


def is_information(text: bytes) -> bool:
    """The program itself calls this line information, or less, and tells of no error in it."""
    head = text[:400]
    return _INFORMATION.search(head) is not None and _AN_ERROR.search(text) is None and is_warning(head)


def is_handled(text: bytes, following: bytes = b"") -> bool:
    """The program says, in the line or right below it, that it goes on. Both are without prefixes."""
    return _says_handled(text) or (not following[:1].isspace() and _says_handled(following))


def is_well(text: bytes) -> bool:
    """Something was done well, which a program does not say when it has just died."""
    return len(text) < 1000 and _WELL.match(text) is not None


def is_shown(text: bytes) -> bool:
    """Not what happened to the program: a text, a list or a test that it prints. `text` is without prefixes."""
    return _SHOWN.search(text) is not None and _RAISED.match(text) is None


def _says_handled(text: bytes) -> bool:
    return _HANDLED.search(text) is not None and _NOT_HANDLED.search(text) is None
