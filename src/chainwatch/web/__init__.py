"""Status page, health and metrics over HTTP."""
