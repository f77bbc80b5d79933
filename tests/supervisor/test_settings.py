"""Where a daemon's settings come from, and what is left of them when one source is wrong."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.config.site import Site, SiteError
from chainwatch.supervisor import settings as module
from chainwatch.supervisor.scripts import at_once
from chainwatch.supervisor.settings import Settings


class Desk:
    """A configuration, its script, and the site's file."""

    def __init__(self, where: Path, patch: pytest.MonkeyPatch) -> None:
        self.config, self.script = where / "c.yaml", where / "train.sh"
        self.site: Site | SiteError = Site()
        self.told: list[str] = []
        self.write("poll: 30s\n")
        self.script.write_text("#!/bin/sh\n")
        patch.setattr(module, "load_site", self._site)
        self.settings = Settings(self.config, self.told.append, at_once)

    def write(self, head: str) -> None:
        self.config.write_text(f"{head}chains: {{a: {{batch: train.sh}}}}\n")

    def _site(self) -> Site:
        if isinstance(self.site, SiteError):
            raise self.site
        return self.site


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_a_script_that_got_a_parallel_array_is_refused_at_a_reload_and_the_old_configuration_stays(desk: Desk) -> None:
    old = desk.settings.read()
    desk.script.write_text("#!/bin/sh\n#SBATCH --array=0-9\n")
    desk.write("poll: 40s\n")
    config, problem = desk.settings.reread(old)
    assert config == old
    assert problem.startswith("the new configuration is refused, the old one stays: ")
    assert f"{desk.script}:2: --array=0-9 runs 10 tasks side by side" in problem


def test_a_daemon_starts_though_a_script_got_a_parallel_array_meanwhile_and_says_so(desk: Desk) -> None:
    """The kind: an edit of one chain's script ends every chain at the daemon's next start."""
    desk.script.write_text("#!/bin/sh\n#SBATCH --array=0-9\n")
    assert desk.settings.read().chains.keys() == {"a"}
    [told] = desk.told
    assert told.startswith(f"chains.a.batch: {desk.script}:2: --array=0-9 runs 10 tasks side by side")


def test_a_script_whose_storage_does_not_answer_refuses_nothing(desk: Desk) -> None:
    desk.script.write_text("#!/bin/sh\n#SBATCH --array=0-9\n")
    assert Settings(desk.config, desk.told.append, lambda path: None).read().chains.keys() == {"a"}


def test_new_limits_of_the_site_hold_though_the_new_configuration_is_wrong(desk: Desk) -> None:
    """The kind: one wrong source keeps the other from being heard."""
    old = desk.settings.read()
    desk.site = Site(poll_at_least=timedelta(minutes=5))
    desk.write("poll: never\n")
    config, problem = desk.settings.reread(old)
    assert config is not None
    assert (config.poll, problem != "") == (timedelta(minutes=5), True)
    assert desk.told == ["poll is 5m, the least that this site allows"]
    desk.site = Site()
    config, _ = desk.settings.reread(config)
    assert config == old, "limits that are gone are gone"


def test_a_site_file_that_cannot_be_trusted_changes_nothing(desk: Desk) -> None:
    old = desk.settings.read()
    desk.site = SiteError("it is writable by everybody")
    assert desk.settings.reread(old) == (
        None,
        "the new configuration is refused, the old one stays: it is writable by everybody",
    )
