"""What a reload says, and the site's file that calls for one."""

from __future__ import annotations

from pathlib import Path

from chainwatch.config.models import Config
from chainwatch.supervisor.reloading import FIXED_BEFORE_SLURM, SiteFile, cannot_change, difference


def config(*chains: str, **more: object) -> Config:
    return Config.model_validate({"chains": {name: {"batch": f"/{name}.sh"} for name in chains}, **more})


def test_what_is_new_is_said_in_a_sentence() -> None:
    old, new = config("a", "b"), config("b", "c")
    assert difference(old, new) == "the configuration was read again: 2 chains; new c; gone a"
    assert difference(old, old).endswith("2 chains")
    many = difference(config(), config(*"abcdefgh"))
    assert many.endswith("new a, b, c, d, e and 3 more")


def test_what_everything_stands_on_changes_with_a_restart_only() -> None:
    assert cannot_change(config(), config(poll="5m", submissions_per_hour=3)) == ""
    assert cannot_change(config(), config(state="/elsewhere")).startswith("state cannot change")
    other = config(slurm={"bin": "/opt/slurm/bin"})
    assert cannot_change(config(), other).startswith("slurm cannot change")
    assert cannot_change(config(), other, FIXED_BEFORE_SLURM) == "", "nothing stands on it yet"


def test_a_file_that_is_just_being_written_lets_no_chain_go() -> None:
    assert cannot_change(config("a"), config()).startswith("it names no chain")
    assert cannot_change(config("a", "b"), config("b")) == ""


def test_the_sites_file_is_noticed_when_it_comes_changes_and_goes(tmp_path: Path) -> None:
    file = SiteFile(tmp_path / "site.yaml")
    assert not file.changed()
    (tmp_path / "site.yaml").write_text("poll_at_least: 5m")
    assert file.changed()
    assert not file.changed()
    (tmp_path / "site.yaml").chmod(0o600)
    assert file.changed()
    (tmp_path / "site.yaml").unlink()
    assert file.changed()
