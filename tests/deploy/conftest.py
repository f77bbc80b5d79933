"""The store of the metrics tests serves the deployment tests too."""

from tests.web.conftest import store

__all__ = ["store"]
