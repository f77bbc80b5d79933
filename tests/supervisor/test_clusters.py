"""Which clusters a configuration means, and by which backend each is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainwatch.config.models import Config, Slurm
from chainwatch.slurm import CliBackend, NoInformation
from chainwatch.slurm.pyslurm import PyslurmBackend
from chainwatch.store import Store, open_store
from chainwatch.supervisor import clusters
from chainwatch.supervisor.clusters import backends, reach, reachable, remember


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "state")
    yield opened
    opened.close()


def config(**slurm: object) -> Config:
    return Config(slurm=Slurm.model_validate(slurm))


def test_clusters_by_option_and_by_slurm_conf_are_watched_together(tmp_path: Path) -> None:
    found = backends(config(confs={"gamma": str(tmp_path / "slurm.conf")}, clusters=["alpha", "beta"]))
    assert list(found) == [backend.name for backend in found.values()] == ["gamma", "alpha", "beta"]


@pytest.mark.parametrize(
    ("settings", "there", "kind"),
    [
        ({}, False, CliBackend),
        ({}, True, PyslurmBackend),
        ({"backend": "cli"}, True, CliBackend),
        ({"backend": "pyslurm"}, False, PyslurmBackend),
        ({"pyslurm_python": "/opt/python"}, False, PyslurmBackend),
    ],
)
def test_pyslurm_is_taken_where_it_is_wanted_or_there(
    settings: dict[str, object], there: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "installed", lambda: there)
    (backend,) = backends(config(confs={"gamma": "/etc/gamma.conf"}, **settings)).values()
    assert type(backend) is kind


def test_the_library_is_not_asked_about_clusters_that_only_the_option_reaches() -> None:
    (backend,) = backends(config(backend="pyslurm", clusters=["alpha"])).values()
    assert type(backend) is CliBackend


def test_a_site_without_accounting_is_never_asked_for_it() -> None:
    (backend,) = backends(config(clusters=["alpha"], accounting=False)).values()
    with pytest.raises(NoInformation, match="without accounting"):
        backend.accounting([7])


def test_commands_reach_the_clusters_of_the_daemon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoInformation):
        reachable(store)
    remember(config(confs={"gamma": "/etc/gamma.conf"}), store)
    assert list(reachable(store)) == ["gamma"]
    assert reach("gamma", store).name == "gamma"
    assert reach("delta", store).name == "delta"
    remember(config(), store)
    with pytest.raises(NoInformation):
        reachable(store)
