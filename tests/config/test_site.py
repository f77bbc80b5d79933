"""The site has the last word."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from chainwatch.config.models import Config
from chainwatch.config.site import Site, SiteError, apply, load_site, pause_reason
from chainwatch.model.chain import Mode

ME = os.geteuid()


def config(**more: object) -> Config:
    chain = {"batch": "/b.sh", "checkpoints": {"directory": "/c", "hand_over": "set_aside"}, "hang": {"end_job": True}}
    return Config.model_validate({"chains": {"run-a": chain}, **more})


def test_without_a_file_there_are_no_limits(tmp_path: Path) -> None:
    site = load_site(tmp_path / "none")
    assert apply(site, config()) == (config(), ())
    assert site.allowed_hosts is None


def test_limits_tighten_and_never_loosen(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("poll_at_least: 2m\nsubmissions_per_hour: 10\ncontact: help@example.org\n")
    file.chmod(0o644)
    site = load_site(file, owner=ME)
    tight, told = apply(site, config(poll="30s", submissions_per_hour=500))
    assert (tight.poll, tight.submissions_per_hour) == (timedelta(minutes=2), 10)
    assert len(told) == 2
    assert all("help@example.org" in sentence for sentence in told)
    slow, told = apply(site, config(poll="10m", submissions_per_hour=1))
    assert (slow.poll, slow.submissions_per_hour, told) == (timedelta(minutes=10), 1, ())


@pytest.mark.parametrize(
    ("forbid", "mode", "ends"),
    [(["act"], Mode.OBSERVE, True), (["set_aside"], Mode.OBSERVE, True), (["pointer"], Mode.ACT, True),
     (["end_hung_jobs"], Mode.ACT, False), (["probe"], Mode.ACT, False)],
)  # fmt: skip
def test_forbidden_features_are_off_whatever_the_user_wrote(forbid: list[str], mode: Mode, ends: bool) -> None:
    tight, told = apply(Site.model_validate({"forbid": forbid}), config())
    chain = tight.chains["run-a"]
    assert (chain.mode, chain.hang.end_job) == (mode, ends)
    assert chain.hang.probe is ("probe" not in forbid)
    assert len(told) == (forbid != ["pointer"])


def test_a_site_may_allow_no_port_and_no_foreign_webhook() -> None:
    site = Site.model_validate({"forbid": ["tcp", "alerts"]})
    tight, told = apply(site, config(web={"listen": "127.0.0.1:9470", "token_env": "T"}))
    assert tight.web.listen is None
    assert "no port" in told[0]
    assert site.allowed_hosts == ()
    assert Site(webhook_hosts=("chat.example.org",)).allowed_hosts == ("chat.example.org",)


def test_a_file_that_users_could_change_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("poll_at_least: 2m\n")
    file.chmod(0o666)
    with pytest.raises(SiteError, match="belong to root"):
        load_site(file, owner=ME)
    file.chmod(0o644)
    with pytest.raises(SiteError, match="belong to root"):
        load_site(file, owner=ME + 1)


def test_what_is_wrong_is_said_with_its_line_and_what_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("# limits\npoll_at_least: soon\nforbid: [tpc]\nwebhook_host: x\nforbid: [act]\n")
    file.chmod(0o644)
    with pytest.raises(SiteError) as caught:
        load_site(file, owner=ME)
    said = str(caught.value)
    assert f"{file}:2: poll_at_least: a duration like 30s" in said
    assert f"{file}:3: forbid.0: " in said
    assert "did you mean `tcp`?" in said
    assert f"{file}:4: webhook_host: is not a known key; did you mean `webhook_hosts`?" in said
    assert f"{file}:5: forbid: is given twice (first in line 3)" in said
    assert "\n" not in said


def test_an_empty_file_is_no_limit(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("# nothing yet\n")
    file.chmod(0o644)
    assert load_site(file, owner=ME) == Site()


@pytest.mark.parametrize(
    "text", ["poll_at_most: 2m\n", "poll_at_least: soon\n", "- x\n", "{", "forbid: [everything]\n"]
)
def test_a_wrong_file_stops_rather_than_being_ignored(tmp_path: Path, text: str) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(text)
    file.chmod(0o644)
    with pytest.raises(SiteError, match="ask whoever runs the cluster"):
        load_site(file, owner=ME)


def test_the_pause_file_pauses_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "PAUSE"
    assert pause_reason(file) == ""
    file.touch()
    assert pause_reason(file) == f"{file} is there"
    file.write_text("maintenance\nuntil noon\n")
    assert pause_reason(file) == "maintenance until noon"
    assert "cannot be read" in pause_reason(tmp_path)
