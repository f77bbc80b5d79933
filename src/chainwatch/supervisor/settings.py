"""Where a daemon's settings come from: its configuration within the site's limits, at the start and at each reload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from chainwatch.config import Config, ConfigError, Rule, load
from chainwatch.config.place import overruled, placed
from chainwatch.config.site import Site, SiteError, apply, load_site
from chainwatch.supervisor.reloading import FIXED, cannot_change
from chainwatch.supervisor.rules import RULES, with_scripts
from chainwatch.supervisor.scripts import ReadScript, one_job_at_a_time


class Settings:
    """The configuration that `chainwatch run` was given, and the site's file."""

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None],
        read_script: ReadScript,
        state: Path | None = None,
        database: str | None = None,
    ) -> None:
        """`warn` is told what counts before the configuration; `read_script` answers within seconds; `state`, `database`:
        as in `placed`."""
        self.site = Site()
        """The limits as they were read last."""
        self._path, self._warn, self._read_script = path, warn, read_script
        self._state, self._database = state, database
        self._asked = Config()
        """What the user asks for: the last configuration that was taken over, before any limit."""
        self._overruled = ""
        """That another state counts than the configuration names; empty where it does not."""

    def read(self) -> Config:
        """At the start, where a script that was edited since costs its own chain alone, at its next submission.

        Raises ConfigError, SiteError.
        """
        self.site = load_site()
        self._asked = self._load(RULES)
        for where, why in one_job_at_a_time(self._read_script)(self._asked):
            self._warn(f"{'.'.join(map(str, where))}: {why}")
        if self._overruled:
            self._warn(self._overruled)
        return self._limited()

    def reread(self, old: Config, fixed: Sequence[str] = FIXED) -> tuple[Config | None, str]:
        """The configuration to go on with, and why it is not the new one; empty if it is. `fixed`: what cannot change now.

        Limits of the site hold from now on for the old one, too. None: the site's file cannot be used.
        """
        try:
            self.site = load_site()
            new = self._load(with_scripts(self._read_script))
            problem = cannot_change(old, new, fixed)
        except SiteError as error:
            return None, f"the new configuration is refused, the old one stays: {error}"
        except ConfigError as error:
            return self._limited(), f"the new configuration is refused, the old one stays: {error}"
        if problem:
            return self._limited(), f"{problem}; the old configuration stays"
        self._asked = new
        return self._limited(), ""

    def _load(self, rules: Sequence[Rule]) -> Config:
        read = load(self._path, rules).config
        found = placed(read, self._state, self._database)
        self._overruled = overruled(read, found.state)
        return found

    def _limited(self) -> Config:
        config, told = apply(self.site, self._asked)
        for sentence in told:
            self._warn(sentence)
        return config
