"""Alembic's entry: runs the migrations on the connection, and inside the transaction, that it is handed."""

from alembic import context

from chainwatch.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=False,  # the caller's transaction is the only one
    render_as_batch=True,
)
context.run_migrations()
