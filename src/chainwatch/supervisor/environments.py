"""The environment of a chain's jobs, as its settings ask for it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from chainwatch.config.models import Chain
from chainwatch.model.plain_file import text_of
from chainwatch.slurm import environment
from chainwatch.store.records import ChainRecord


def of_chain(record: ChainRecord, settings: Chain, conf: str | None = None) -> tuple[tuple[str, str], ...]:
    """The complete environment of the next sbatch call.

    `captured` is what the chain was first submitted with; a chain without one gets a login shell's. Raises
    `environment.EnvironmentUnusable` where it cannot be had.
    """
    entry = pwd.getpwuid(os.getuid())
    account = environment.Account(entry.pw_name, entry.pw_dir, entry.pw_shell or "/bin/sh")
    kind = settings.environment
    if kind == "clean":
        raw = environment.clean(account)
    elif kind == "captured" and record.environment:
        raw = dict(record.environment)
    elif kind in {"captured", "login"}:
        raw = environment.of_login_shell(account)
    else:
        path = Path(kind)
        try:
            raw = environment.from_file(text_of(path, "strict"))
        except OSError as e:
            raise environment.EnvironmentUnusable(f"{path}: {e.strerror}") from e
        except UnicodeDecodeError as e:
            raise environment.EnvironmentUnusable(f"{path}: it is not UTF-8 text") from e
    # Nothing of the daemon's own environment is in `raw`: a virtual environment on its PATH is the person's own doing.
    return environment.job_environment(raw, conf=conf)
