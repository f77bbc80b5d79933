"""The track of a chain: how far it was when, and its saves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from chainwatch.store.types import UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "points",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("chain_id", sa.Integer, sa.ForeignKey("chains.id"), nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Float),
    )
    op.create_index("ix_points_chain_at", "points", ["chain_id", "at"])
    op.create_table(
        "saves",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("chain_id", sa.Integer, sa.ForeignKey("chains.id"), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("step", sa.BigInteger),
        sa.Column("status", sa.String(32), nullable=False),
    )
    op.create_index("ix_saves_chain_at", "saves", ["chain_id", "at"])
