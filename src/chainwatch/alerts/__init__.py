"""The outbox and its channels."""
