"""The first schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from chainwatch.store.types import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _chain(nullable: bool = False) -> sa.Column[Any]:
    return sa.Column("chain_id", sa.Integer, sa.ForeignKey("chains.id"), nullable=nullable)


def _need(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **more)


def upgrade() -> None:
    text, word, name = sa.Text, sa.String(32), sa.String(200)
    op.create_table("meta", sa.Column("key", sa.String(64), primary_key=True), _need("value", text))
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        _need("holder", text),
        _need("epoch", sa.Integer),
        sa.Column("until", UtcTime),
        _need("kernel", sa.String(128)),
        _need("started", word),
    )
    op.create_table(
        "chains",
        sa.Column("id", sa.Integer, primary_key=True),
        _need("name", name, unique=True),
        _need("archived", sa.Boolean),
        _need("cluster", text),
        _need("origin", word),
        _need("mode", word),
        _need("settings", text),
        _need("created", UtcTime),
        _need("desired", word),
        sa.Column("desired_at", UtcTime),
        sa.Column("desired_until", UtcTime),
        _need("desired_why", text),
        _need("state", word),
        sa.Column("state_since", UtcTime),
        _need("sentence", text),
        sa.Column("wait_until", UtcTime),
        sa.Column("step", sa.BigInteger),
        sa.Column("saved_step", sa.BigInteger),
        sa.Column("target", sa.BigInteger),
        sa.Column("retried_at", UtcTime),
        _need("environment", text),
        _need("script_digest", text),
        _need("pinned_script", text),
        sa.Column("grace_until", UtcTime),
        _need("facts", text),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer, primary_key=True),
        _chain(),
        _need("number", sa.Integer),
        _need("cluster", text),
        _need("job_id", sa.BigInteger),
        _need("submitted", UtcTime),
        sa.Column("ended", UtcTime),
        _need("document", text),
        sa.UniqueConstraint("chain_id", "number"),
        sa.UniqueConstraint("chain_id", "cluster", "job_id", "submitted"),
    )
    op.create_table(
        "evidence",
        sa.Column("attempt_id", sa.Integer, sa.ForeignKey("attempts.id"), primary_key=True),
        _need("document", text),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        _chain(),
        sa.Column("number", sa.Integer),
        _need("at", UtcTime),
        _need("kind", word),
        _need("sentence", text),
        _need("document", text),
    )
    op.create_table(
        "intents",
        sa.Column("id", sa.Integer, primary_key=True),
        _chain(),
        _need("kind", word),
        _need("token", name, unique=True),
        _need("created", UtcTime),
        _need("payload", text),
        _need("status", word),
        _need("epoch", sa.Integer),
        sa.Column("tried_at", UtcTime),
        _need("absent_rounds", sa.Integer),
        sa.Column("absent_at", UtcTime),
        sa.Column("job_id", sa.BigInteger),
        sa.Column("closed", UtcTime),
        _need("note", text),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer, primary_key=True),
        _chain(nullable=True),
        _need("key", text),
        _need("severity", word),
        _need("title", text),
        _need("body", text),
        _need("created", UtcTime),
        sa.Column("delivered", UtcTime),
        sa.Column("recovered", UtcTime),
        _need("tries", sa.Integer),
        sa.Column("next_try", UtcTime),
        _need("last_error", text),
    )
    op.create_table(
        "excluded_nodes",
        sa.Column("id", sa.Integer, primary_key=True),
        _need("node", sa.String(255)),
        _chain(nullable=True),
        _need("why", text),
        _need("since", UtcTime),
        _need("until", UtcTime),
    )
    op.create_table(
        "counters",
        sa.Column("name", name, primary_key=True),
        sa.Column("labels", text, primary_key=True),
        _need("value", sa.Float),
    )
    op.create_table(
        "moves",
        sa.Column("id", sa.Integer, primary_key=True),
        _chain(nullable=True),
        _need("kind", word),
        _need("path", text),
        _need("target", text),
        _need("before", text),
        _need("at", UtcTime),
        _need("state", word),
        _need("changed", UtcTime),
        _need("why", text),
    )
    op.create_table("memory", sa.Column("key", name, primary_key=True), _need("value", text))
    _indexes()


def _indexes() -> None:
    for table in ("attempts", "decisions", "intents", "notices", "excluded_nodes", "moves"):
        op.create_index(f"ix_{table}_chain_id", table, ["chain_id"])
    op.create_index("ix_attempts_identity", "attempts", ["cluster", "job_id", "submitted"])
    op.create_index("ix_attempts_ended", "attempts", ["ended"])
    op.create_index("ix_intents_status", "intents", ["status"])
    op.create_index("ix_intents_tried_at", "intents", ["tried_at"])
    op.create_index("ix_notices_delivered", "notices", ["delivered"])
    op.create_index("ix_excluded_nodes_until", "excluded_nodes", ["until"])
    for index, table, column, condition in (
        ("uq_intents_open_submission", "intents", "chain_id", "status = 'open' AND kind = 'submit'"),
        ("uq_notices_key_open", "notices", "key", "recovered IS NULL"),
    ):
        where = sa.text(condition)
        op.create_index(index, table, [column], unique=True, sqlite_where=where, postgresql_where=where)
