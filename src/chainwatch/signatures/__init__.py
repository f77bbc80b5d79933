"""What programs print when they end: data files, the Xid table, and the matcher."""

from chainwatch.signatures.load import builtin_signatures, parse_signatures, user_signatures
from chainwatch.signatures.matcher import Hit, Matcher, builtin_matcher
from chainwatch.signatures.signature import Signature, SignatureError
from chainwatch.signatures.xid import Xid, xid_table

__all__ = [
    "Hit",
    "Matcher",
    "Signature",
    "SignatureError",
    "Xid",
    "builtin_matcher",
    "builtin_signatures",
    "parse_signatures",
    "user_signatures",
    "xid_table",
]
