"""The tables. `migrations/` builds the same, step by step; a test compares the two.

A chain's flat facts are columns, so that a command that says `pause` and a loop that says `running` never overwrite
each other, and so that the database can be read with plain SQL. What is nested (an attempt's job and verdict, the
evidence) is one JSON document beside the columns that are searched.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

from chainwatch.model.chain import ChainState, Desired, Mode
from chainwatch.store.records import IntentKind, IntentStatus, Origin
from chainwatch.store.types import Json, UtcTime, Word, Words

HEAD = "0002"
"""The newest migration. Kept here so that a command need not load Alembic to see that nothing is to be done."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _chain(nullable: bool = False) -> Column[int | None]:
    return Column("chain_id", Integer, ForeignKey("chains.id"), nullable=nullable, index=True)


meta = Table("meta", metadata, Column("key", String(64), primary_key=True), Column("value", Words, nullable=False))

leases = Table(
    "leases",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Words, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("until", UtcTime),
    Column("kernel", String(128), nullable=False),  # boot id and pid namespace: where the holder's pid means something
    Column("started", String(32), nullable=False),  # start of that process in clock ticks: a pid may be used again
)

chains = Table(
    "chains",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("archived", Boolean, nullable=False),
    Column("cluster", Words, nullable=False),
    Column("origin", Word(Origin), nullable=False),
    Column("mode", Word(Mode), nullable=False),
    Column("settings", Json, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("desired", Word(Desired), nullable=False),
    Column("desired_at", UtcTime),
    Column("desired_until", UtcTime),
    Column("desired_why", Words, nullable=False),
    Column("state", Word(ChainState), nullable=False),
    Column("state_since", UtcTime),
    Column("sentence", Words, nullable=False),
    Column("wait_until", UtcTime),
    Column("step", BigInteger),
    Column("saved_step", BigInteger),
    Column("target", BigInteger),
    Column("retried_at", UtcTime),
    Column("environment", Json, nullable=False),
    Column("script_digest", Words, nullable=False),
    Column("pinned_script", Json, nullable=False),
    Column("grace_until", UtcTime),
    Column("facts", Json, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    _chain(),
    Column("number", Integer, nullable=False),
    Column("cluster", Words, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("submitted", UtcTime, nullable=False),
    Column("ended", UtcTime),
    Column("document", Json, nullable=False),
    UniqueConstraint("chain_id", "number"),
    UniqueConstraint("chain_id", "cluster", "job_id", "submitted"),
    Index("ix_attempts_identity", "cluster", "job_id", "submitted"),
    Index("ix_attempts_ended", "ended"),
)

evidence = Table(
    "evidence",
    metadata,
    Column("attempt_id", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("document", Json, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    _chain(),
    Column("number", Integer),
    Column("at", UtcTime, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("sentence", Words, nullable=False),
    Column("document", Json, nullable=False),
)

intents = Table(
    "intents",
    metadata,
    Column("id", Integer, primary_key=True),
    _chain(),
    Column("kind", Word(IntentKind), nullable=False),
    Column("token", String(200), nullable=False, unique=True),
    Column("created", UtcTime, nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", Word(IntentStatus), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("tried_at", UtcTime),
    Column("absent_rounds", Integer, nullable=False),
    Column("absent_at", UtcTime),
    Column("job_id", BigInteger),
    Column("closed", UtcTime),
    Column("note", Words, nullable=False),
    Index("ix_intents_status", "status"),
    Index("ix_intents_tried_at", "tried_at"),
    Index(
        "uq_intents_open_submission",
        "chain_id",
        unique=True,
        sqlite_where=text("status = 'open' AND kind = 'submit'"),
        postgresql_where=text("status = 'open' AND kind = 'submit'"),
    ),
)

notices = Table(
    "notices",
    metadata,
    Column("id", Integer, primary_key=True),
    _chain(nullable=True),
    Column("key", Words, nullable=False),
    Column("severity", String(32), nullable=False),
    Column("title", Words, nullable=False),
    Column("body", Json, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("delivered", UtcTime),
    Column("recovered", UtcTime),
    Column("tries", Integer, nullable=False),
    Column("next_try", UtcTime),
    Column("last_error", Words, nullable=False),
    Index("ix_notices_delivered", "delivered"),
    Index(
        "uq_notices_key_open",
        "key",
        unique=True,
        sqlite_where=text("recovered IS NULL"),
        postgresql_where=text("recovered IS NULL"),
    ),
)

excluded_nodes = Table(
    "excluded_nodes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node", String(255), nullable=False),
    _chain(nullable=True),
    Column("why", Words, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("until", UtcTime, nullable=False, index=True),
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("labels", Json, primary_key=True),
    Column("value", Float, nullable=False),
)

moves = Table(
    "moves",
    metadata,
    Column("id", Integer, primary_key=True),
    _chain(nullable=True),
    Column("kind", String(32), nullable=False),
    Column("path", Json, nullable=False),
    Column("target", Json, nullable=False),
    Column("before", Json, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("state", String(32), nullable=False),
    Column("changed", UtcTime, nullable=False),
    Column("why", Words, nullable=False),
)

points = Table(
    "points",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chain_id", Integer, ForeignKey("chains.id"), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("loss", Float),
    Index("ix_points_chain_at", "chain_id", "at"),
)

saves = Table(
    "saves",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chain_id", Integer, ForeignKey("chains.id"), nullable=False),
    Column("path", Json, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("step", BigInteger),
    Column("status", String(32), nullable=False),
    Index("ix_saves_chain_at", "chain_id", "at"),
)

memory = Table("memory", metadata, Column("key", String(200), primary_key=True), Column("value", Json, nullable=False))
