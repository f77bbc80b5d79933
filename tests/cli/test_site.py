"""Commands keep to the site's word as the daemon does: PAUSE, forbidden features, the budget for reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.checkpoints import polite
from chainwatch.cli import light
from chainwatch.cli.__main__ import main
from chainwatch.config import site as site_module
from chainwatch.config.site import Site
from chainwatch.model.chain import Mode
from chainwatch.store import open_store
from tests.store.build import record


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with one chain, in mode observe."""
    store = open_store(tmp_path / "state")
    store.add_chain(record(mode=Mode.OBSERVE))
    store.close()
    monkeypatch.setenv("CHAINWATCH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def forbid(monkeypatch: pytest.MonkeyPatch, *features: str, paused: str = "") -> None:
    site = Site.model_validate({"forbid": features, "contact": "help@example.org"})
    monkeypatch.setattr(site_module, "load_site", lambda: site)
    monkeypatch.setattr(site_module, "pause_reason", lambda: paused)


@pytest.mark.parametrize(
    "words",
    [
        ("mode", "llama", "act"),
        ("stop", "llama", "--cancel"),
        ("quarantine", "/nowhere"),
        ("restore", "/nowhere"),
    ],
)
def test_pause_holds_for_people_too(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    forbid(monkeypatch, paused="maintenance until six")
    assert main(list(words)) == 3
    assert "the site has paused all actions: maintenance until six (help@example.org)" in capsys.readouterr().err


def test_a_forbidden_feature_cannot_be_switched_on(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(monkeypatch, "act", "set_aside")
    assert main(["mode", "llama", "act"]) == 3
    assert "act is forbidden" in capsys.readouterr().err
    assert main(["quarantine", "/nowhere"]) == 3
    assert main(["mode", "llama", "observe"]) == 0
    store = open_store(state)
    assert store.chain("llama") is not None
    assert store.chain("llama").mode is Mode.OBSERVE  # type: ignore[union-attr]
    store.close()


def test_a_check_by_hand_keeps_to_the_budget_on_a_login_node_and_not_in_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("storage_mb_per_second: 5")
    monkeypatch.setattr(light, "SITE_FILE", str(site))
    monkeypatch.setattr(site_module, "load_site", lambda: Site(storage_mb_per_second=5))
    monkeypatch.setattr(polite, "_process", polite.Throttle(None))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (tmp_path / "run").mkdir()
    assert main(["verify", str(tmp_path / "run"), "--patience", "0"]) == 1
    assert not polite.limited()
    monkeypatch.delenv("SLURM_JOB_ID")
    assert main(["verify", str(tmp_path / "run"), "--patience", "0"]) == 1
    assert polite.limited()
