"""What we remember: schema, migrations and queries."""

from chainwatch.store.errors import (
    AttemptTaken,
    ChainExists,
    Damaged,
    IntentClosed,
    IntentOpen,
    LeaseHeld,
    LeaseLost,
    NewerSchema,
    StoreError,
    UnknownChain,
)
from chainwatch.store.store import Store, open_store

__all__ = [
    "AttemptTaken",
    "ChainExists",
    "Damaged",
    "IntentClosed",
    "IntentOpen",
    "LeaseHeld",
    "LeaseLost",
    "NewerSchema",
    "Store",
    "StoreError",
    "UnknownChain",
    "open_store",
]
