"""Which state counts, by one rule for every command: `--state`, else CHAINWATCH_STATE, else the configuration's, else the
default; and for the database CHAINWATCH_DATABASE, else the configuration's. So whatever is typed in one shell meets."""

from __future__ import annotations

import os
from pathlib import Path

from chainwatch.config.models import Config

WINS = "--state and CHAINWATCH_STATE win over the configuration's"


def placed(config: Config, state: Path | None, database: str | None) -> Config:
    """The configuration with the state and the database that count; None: the configuration's own."""
    changes: dict[str, object] = {}
    if state is not None:
        changes["state"] = Path(os.path.expanduser(state)).absolute()
    if database is not None:
        changes["database"] = database
    return config.model_copy(update=changes)


def overruled(config: Config, counts: Path) -> str:
    """That another state counts than a configuration names, for people; empty where it does not."""
    if "state" not in config.model_fields_set or os.path.realpath(config.state) == os.path.realpath(counts):
        return ""
    return f"the state is {counts}: {WINS} {config.state}"
