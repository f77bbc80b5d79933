"""The site's word: limits in /etc/chainwatch/site.yaml that users cannot loosen, and a PAUSE file beside it.

A site file that cannot be trusted (not root's, writable by others, wrong) stops the daemon from starting: going on
without limits that somebody wrote down would be the wrong guess.
"""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from chainwatch.config.document import MOST_BYTES, ConfigError, Problem, parse
from chainwatch.config.explain import explained
from chainwatch.config.models import Chain, Config
from chainwatch.config.section import Section
from chainwatch.config.values import Duration
from chainwatch.config.web import Web
from chainwatch.model.chain import Mode
from chainwatch.model.durations import show_duration
from chainwatch.model.plain_file import open_plain

SITE_FILE = Path("/etc/chainwatch/site.yaml")
PAUSE_FILE = Path("/etc/chainwatch/PAUSE")
Feature = Literal["act", "end_hung_jobs", "probe", "set_aside", "pointer", "tcp", "buttons", "alerts"]


class SiteError(ValueError):
    """The site file cannot be trusted or read; a sentence for people."""


class Site(Section):
    """Limits that users cannot loosen."""

    poll_at_least: Duration = timedelta(seconds=1)
    """Least time between two polls."""
    submissions_per_hour: int | None = Field(default=None, ge=0)
    """Most submissions of one user in an hour, those of commands included."""
    storage_mb_per_second: float | None = Field(default=None, ge=1)
    """Most megabytes in a second that one user's daemon, and each check by hand on a login node, may read from
    checkpoints. Jobs are not limited: they read on their own nodes."""
    forbid: tuple[Feature, ...] = ()
    """What users may not switch on: `act` (everything only observes), `end_hung_jobs`, `probe` (short steps of chainwatch's
    own in silent jobs), `set_aside` (moving damaged checkpoints), `pointer` (rewriting pointer files), `tcp` (a port
    for metrics and page), `buttons` (actions on the page), `alerts` (to other hosts)."""
    webhook_hosts: tuple[str, ...] | None = None
    """Hosts that alerts may be sent to, as names or `*.example.org`; by default any."""
    contact: str = ""
    """Whom users ask about these limits; shown with each refusal."""

    @property
    def bytes_per_second(self) -> float | None:
        """For the readers of checkpoints; None: no limit."""
        return None if self.storage_mb_per_second is None else self.storage_mb_per_second * 1e6

    @property
    def allowed_hosts(self) -> tuple[str, ...] | None:
        """For the alert channels; None: any."""
        return () if "alerts" in self.forbid else self.webhook_hosts


def load_site(path: Path = SITE_FILE, *, owner: int = 0) -> Site:
    """The site's limits; none where there is no file. Raises `SiteError`."""
    try:
        handle = open_plain(path)
    except FileNotFoundError:
        return Site()
    except OSError as error:
        raise SiteError(
            f"the site's limits in {path} cannot be read ({error.strerror}): ask whoever runs the cluster"
        ) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != owner or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SiteError(f"{path} must belong to root and be writable by nobody else, or its limits mean nothing")
        raw = file.read(MOST_BYTES + 1)
    try:
        return _parsed(raw, str(path))
    except ConfigError as error:
        said = "; ".join(str(problem) for problem in error.problems)
        raise SiteError(f"the site's limits are wrong: {said}; ask whoever runs the cluster") from None


def _parsed(raw: bytes, name: str) -> Site:
    """Raises ConfigError with all problems, each with its line."""
    problems: list[Problem] = []
    tree = parse(raw, name, problems)
    try:
        site = Site.model_validate(tree.plain())
    except ValidationError as error:
        problems += explained(error, tree, Site)
    if problems:
        raise ConfigError(sorted(dict.fromkeys(problems), key=lambda p: (p.line or 0, p.key)))
    return site


def pause_reason(path: Path = PAUSE_FILE) -> str:
    """Why every action is paused: the text of the PAUSE file; empty if there is none. What cannot be read pauses."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            text = file.read(2000).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} is there and cannot be read ({error.strerror})"
    return " ".join(text.split()) or f"{path} is there"


def apply(site: Site, config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration within the site's limits, and a sentence for each thing that was tightened."""
    told: list[str] = []
    changes: dict[str, object] = {}
    if config.poll < site.poll_at_least:
        changes["poll"] = site.poll_at_least
        told.append(f"poll is {show_duration(site.poll_at_least)}, the least that this site allows")
    most = site.submissions_per_hour
    if most is not None and (config.submissions_per_hour is None or config.submissions_per_hour > most):
        changes["submissions_per_hour"] = most
        told.append(f"submissions_per_hour is {most}, the most that this site allows")
    if "alerts" in site.forbid and config.alerts.channels:
        told.append("alerts go to no other host, as this site demands: look at `chainwatch status`")
    if "tcp" in site.forbid and config.web.listen:
        changes["web"] = config.web.model_copy(update={"listen": None})
        told.append("the page is served on its Unix socket only: this site allows no port")
    if "buttons" in site.forbid and config.web.actions:
        web = changes.get("web", config.web)
        assert isinstance(web, Web)
        changes["web"] = web.model_copy(update={"actions": False})
        told.append("the page has no buttons, as this site demands")
    chains = {}
    for name, chain in config.chains.items():
        chains[name], said = _chain(site, chain)
        told += [f"chain {name}: {sentence}" for sentence in said]
    contact = f" ({site.contact})" if site.contact and told else ""
    changes["chains"] = chains
    return config.model_copy(update=changes), tuple(sentence + contact for sentence in told)


def held_back(site: Site, hand_over: str | None) -> str:
    """Why a chain may only be observed here; empty if it may be acted for. `hand_over`: how its next job learns of the
    checkpoint."""
    if "act" in site.forbid:
        return "this site only lets chainwatch observe"
    if hand_over in {"set_aside", "pointer"} and hand_over in site.forbid:
        return f"this site does not allow hand_over {hand_over}; use command or file"
    return ""


def tightened(site: Site, chain: Chain) -> Chain:
    """The settings of one chain within the site's limits, wherever they come from: also those that a command stored."""
    blind = chain.hang.probe and "probe" in site.forbid
    spared = chain.hang.end_job and (blind or "end_hung_jobs" in site.forbid)
    changes = {name: False for name, off in (("probe", blind), ("end_job", spared)) if off}
    if not changes:
        return chain
    return chain.model_copy(update={"hang": chain.hang.model_copy(update=changes)})


def _chain(site: Site, chain: Chain) -> tuple[Chain, list[str]]:
    told: list[str] = []
    tight = tightened(site, chain)
    if chain.hang.end_job and not tight.hang.end_job:
        told.append("hung jobs are told about, not ended, as this site demands")
    hand_over = str(chain.checkpoints.hand_over) if chain.checkpoints else None
    if chain.mode is Mode.ACT and (why := held_back(site, hand_over)):
        told.append(f"it only observes: {why}")
        tight = tight.model_copy(update={"mode": Mode.OBSERVE})
    return tight, told
