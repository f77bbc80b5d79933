"""What the commands share: finding the state, saying things to people and to scripts, and failing in one line.

Exit codes: 0 done; 1 the answer is no (not found, nothing to do); 2 usage, configuration or state cannot be used;
3 refused (Slurm said no, another daemon has the lease); 4 Slurm or the storage gave no answer.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from chainwatch.cli import usage
from chainwatch.cli.completion import chain_names
from chainwatch.cli.light import DEFAULT_STATE, NO_DIRECTORY, is_of_no_directory
from chainwatch.cli.words import whole

if TYPE_CHECKING:  # a database takes longer to import than many commands run
    from chainwatch.config import Config
    from chainwatch.store import Store
    from chainwatch.store.records import ChainRecord

NO, UNUSABLE, REFUSED, SILENT = 1, 2, 3, 4

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help=f"State directory [{DEFAULT_STATE}].",
        envvar="CHAINWATCH_STATE",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def utf8(text: str | None) -> str | None:
    """A word of the command line as text that a database and a terminal take: bytes that are no UTF-8 become `\\xff`, a
    line break `\\n`.

    No chain's name holds a backslash, so such a name is simply not known.
    """
    if text is None:
        return None
    shown = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def config_option(help: str, envvar: str | None = "CHAINWATCH_CONFIG") -> Any:
    """The option that names a configuration; `help`: what for."""
    return typer.Option("--config", "-c", metavar="CONFIG", envvar=envvar, help=help)


ChainName = Annotated[
    str, typer.Argument(metavar="CHAIN", help="Name of the chain.", autocompletion=chain_names, callback=utf8)
]


AttemptNumber = Annotated[
    int | None, typer.Argument(metavar="ATTEMPT", help="Number of the attempt.", parser=whole(1), show_default=False)
]
AttemptOption = Annotated[
    int | None, typer.Option("--attempt", "-a", metavar="N", help="The same, as an option.", parser=whole(1))
]


def one_attempt(word: int | None, option: int | None) -> int | None:
    """The attempt that was asked for, as a word or by the option."""
    if word is not None and option is not None and word != option:
        fail(f"attempt {word} or {option}? name one")
    return word if word is not None else option


def fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """One line on stderr, and out."""
    typer.echo(f"chainwatch: {_plain_lines(message)}", err=True)
    raise typer.Exit(code)


def _plain_lines(message: str) -> str:
    """Nothing in it drives a terminal, a file's name neither."""
    return "\n".join(utf8(line) or "" for line in message.split("\n"))


def state_directory(state: Path | None, config: Config | None = None) -> Path:
    """The state that counts: `--state` or CHAINWATCH_STATE, else the configuration's, else the default."""
    if state is None:
        state = config.state if config is not None else Path(DEFAULT_STATE)
    return Path(os.path.expanduser(state)).absolute()


def database(config: Config | None = None) -> str | None:
    """URL of the database that counts: CHAINWATCH_DATABASE, else the configuration's; None: SQLite in the state."""
    return os.environ.get("CHAINWATCH_DATABASE") or (config.database if config is not None else None)


@contextmanager
def opened(state: Path | None, config: Config | None = None, *, create: bool = False) -> Iterator[Store]:
    """The store of the state that counts, closed at the end."""
    from chainwatch.store import open_store

    store = open_store(state_directory(state, config), database(config), create=create)
    try:
        yield store
    finally:
        store.close()


def known_chain(store: Store, name: str) -> ChainRecord:
    """The chain of this name, or a line that names the nearest ones."""
    record = store.chain(name)
    if record is None:
        import difflib

        near = difflib.get_close_matches(name, [c.name for c in store.chains()], n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `chainwatch status` lists them"
        fail(f"no chain is named {name if len(name) <= 100 else f'{name[:100]}…'}{hint}", NO)
    return record


def job_number(text: str) -> int:
    """The number of a whole job as a person writes it; out, where it is none."""
    from chainwatch.slurm.jobids import parse_job_id

    shown = parse_job_id(text)
    if shown is None or not shown.base or (shown.task, shown.component, shown.step) != (None, None, None):
        fail(f"{text[:40]!r} is no job id; write the number that sbatch printed")
    return shown.base


def as_the_site_allows(feature: str | None = None) -> None:
    """Out, with the site's word, where it has paused every action or forbids this feature."""
    from chainwatch.config.site import load_site, pause_reason

    site = load_site()
    contact = f" ({site.contact})" if site.contact else ""
    if reason := pause_reason():
        fail(f"the site has paused all actions: {reason}{contact}", REFUSED)
    if feature is not None and feature in site.forbid:
        fail(f"this site does not allow it ({feature} is forbidden){contact}", REFUSED)


def print_json(value: Any) -> None:
    """JSON on stdout, with datetimes in ISO format."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=_plain)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def now() -> datetime:
    return datetime.now(UTC)


def ago(moment: datetime | None, at: datetime | None = None) -> str:
    """`3m`, `2h`, `5d`: how long ago, in the largest unit that fits."""
    if moment is None:
        return "-"
    seconds = max(0, int(((at or now()) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def guarded(run: Callable[[], int | None], *, debug: bool) -> int:
    """Run the program; whatever goes wrong ends in one line and an exit code, a traceback only with `--debug`."""
    try:
        return run() or 0
    except typer.Exit as e:
        return e.exit_code
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as e:
        if usage.wants_help(e):
            typer.echo(str(e), err=True)
            return UNUSABLE
        if wrong := usage.sentence(e):
            typer.echo(f"chainwatch: {wrong}", err=True)
            return UNUSABLE
        if isinstance(e, typer.Abort):
            typer.echo("chainwatch: given up: nothing was answered", err=True)
            return UNUSABLE
        if debug:
            raise
        code, said = _told(e)
        for line in said.splitlines():
            print(f"chainwatch: {_plain_lines(line)}", file=sys.stderr)
        return code


def _told(error: Exception) -> tuple[int, str]:
    """The exit code of what went wrong, and what is said of it."""
    from pydantic import ValidationError

    from chainwatch.config import ConfigError
    from chainwatch.slurm.backend import NoInformation, SlurmError
    from chainwatch.store import LeaseHeld, LeaseLost, StoreError

    code = UNUSABLE
    if isinstance(error, (LeaseHeld, LeaseLost)):
        code = REFUSED
    elif isinstance(error, NoInformation):
        code = SILENT
    elif isinstance(error, SlurmError):
        code = REFUSED
    if isinstance(error, UnicodeEncodeError):
        return code, f"{utf8(error.object[:200])!r} is no UTF-8 text: chainwatch cannot keep it"
    if isinstance(error, ValidationError):
        places = {".".join(map(str, i["loc"])) or "all of it" for i in error.errors(include_url=False)}
        where = f"{error.title}: {', '.join(sorted(places))}"
        return code, f"what is remembered does not fit this version of chainwatch ({where}); --debug shows the rest"
    if isinstance(error, OSError) and is_of_no_directory(error):
        return code, NO_DIRECTORY
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return code, "what is printed cannot be written: no space is left there"
    known = isinstance(error, (ConfigError, StoreError, SlurmError, OSError, ValueError))
    if known and str(error):
        return code, str(error)
    return code, f"{type(error).__name__}: {error} (a fault of chainwatch; --debug shows the rest)"
