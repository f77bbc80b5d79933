"""`chainwatch nodes`: what is kept away from, why, until when, and by whom."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.cli import common
from chainwatch.cli.files import nodes
from chainwatch.model.chain import ExcludedNode, Mode
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin


def test_a_suspect_node_is_shown_for_every_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, now = open_store(tmp_path), common.now()
    with store.transaction():
        for name in ("alpha", "beta"):
            store.add_chain(ChainRecord(name, "c", Origin.CONFIG, Mode.ACT, {}, now, state_since=now))
            store.exclude(ExcludedNode("n1", "hardware_gpu: Xid 79", now, now + timedelta(days=2), name))
        store.exclude(ExcludedNode("n2", "hardware_gpu: Xid 48", now, now + timedelta(days=2), "beta"))
    store.close()
    nodes(json=True, state=tmp_path)
    rows = [(e["node"], e["chain"]) for e in json.loads(capsys.readouterr().out)]
    assert rows == [("n1", "alpha"), ("n1", "beta"), ("n2", "beta"), ("n1", None)]
    nodes(json=False, state=tmp_path)
    out = capsys.readouterr().out
    assert "suspect, it ended jobs of alpha and beta" in out
    assert "all" in out
