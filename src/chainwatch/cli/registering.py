"""How a run becomes a chain: its settings from words of a command line, its name, its record."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from chainwatch.actions import options as words
from chainwatch.cli import common
from chainwatch.cli.first import captured_environment, captured_umask
from chainwatch.config.explain import in_words
from chainwatch.config.load import NAME, NAME_RULE
from chainwatch.config.models import Chain
from chainwatch.config.values import expand_path
from chainwatch.model.plain_file import text_of
from chainwatch.slurm.backend import Backend
from chainwatch.store import ChainExists, Store
from chainwatch.store.records import ChainRecord, Origin
from chainwatch.supervisor.configured import first_record, taken_up


def chain_of(
    own: dict[str, Any], option_words: Sequence[str], script: str, args: Sequence[str], directory: str | None = None
) -> Chain:
    """The chain that these words describe; `own`: chainwatch's own options (`cw-name` …). Raises ValueError."""
    unknown = set(own) - {"cw-name", "cw-checkpoints", "cw-done-step", "cw-done-mark", "cw-mode", "cw-hand-over"}
    if unknown:
        raise ValueError(f"--{min(unknown)} is not known")
    given = words.parse(list(option_words)).options
    chdir = words.last(given, "chdir")
    base = os.path.abspath(directory or chdir or os.getcwd())
    if chdir is not None or (directory is not None and _changes_directory(script)):
        # sbatch is called in `base`: a relative directory would be taken from there once more
        option_words = words.leading(words.without(given, "chdir"), f"--chdir={base}")
    settings: dict[str, Any] = {
        "batch": script,
        "args": list(args),
        "sbatch": list(option_words),
        "directory": base,
        "mode": own.get("cw-mode", "act"),
    }
    if "cw-checkpoints" in own:
        where: dict[str, Any] = {"directory": os.path.join(base, expand_path(own["cw-checkpoints"]))}
        if "cw-hand-over" in own:
            where["hand_over"] = own["cw-hand-over"]
        settings["checkpoints"] = where
    rules: dict[str, Any] = {}
    if "cw-done-step" in own:
        rules["step"] = own["cw-done-step"]
    if "cw-done-mark" in own:
        rules["mark"] = own["cw-done-mark"]
    if rules:
        settings["done"] = rules
    try:
        return Chain.stored(settings)
    except ValidationError as e:
        raise ValueError(in_words(e, settings, Chain)) from None


def _changes_directory(script: str) -> bool:
    try:
        return words.last(words.script_options(text_of(script)), "chdir") is not None
    except OSError:
        return False


def new_chain(
    store: Store, name: str, chain: Chain, clusters: dict[str, Backend], origin: Origin, exact: str | None
) -> ChainRecord:
    """Register a chain under this name, or, unless it was asked for by name, under the next free `name-2`, …"""
    record = ChainRecord(
        name=name,
        cluster=chain.cluster or next(iter(clusters)),
        origin=origin,
        mode=chain.mode,
        settings=chain.model_dump(mode="json"),
        created=common.now(),
        state_since=common.now(),
        environment=captured_environment(),
        facts={"directory": str(chain.directory), "umask": captured_umask()},
    )
    number = 1
    while True:
        try:
            store.add_chain(record)
        except ChainExists:
            if exact is not None:
                known = store.chain(exact)
                first = known is not None and known.origin is Origin.CONFIG and not store.attempts(exact)
                common.fail(
                    f"a chain named {exact} exists already: "
                    + (
                        f"`chainwatch adopt JOBID --name {exact} -c CONFIG` makes a job its first one"
                        if first
                        else f"`chainwatch retry {exact}` goes on with it"
                    ),
                    common.REFUSED,
                )
            number += 1
            record = replace(record, name=f"{name[:90]}-{number}")
        else:
            return record


def registered(store: Store, name: str, chain: Chain, clusters: dict[str, Backend]) -> ChainRecord:
    """The record of a configuration's chain, made where the daemon has not read that configuration yet."""
    known = store.chain(name)
    settings = chain.model_dump(mode="json")
    if known is not None and known.released:
        return store.update_chain(name, settings=settings, facts=taken_up(known))
    if known is not None:
        return store.update_chain(name, settings=settings)
    record = first_record(name, chain, settings, clusters, common.now())
    store.add_chain(record)
    return record


def one_chain_a_task(store: Store, record: ChainRecord, tasks: Iterable[int], job_id: int) -> list[str]:
    """An array whose tasks are independent runs: one chain for each, in place of the one that was registered."""
    facts = {k: v for k, v in record.facts.items() if k not in {"array", "expected"}}
    store.forget_chain(record.name)
    names = []
    for task in tasks:
        own = replace(record, name=f"{record.name}.{task}", facts={**facts, "array": {"id": job_id, "task": str(task)}})
        store.add_chain(own)
        names.append(own.name)
    return names


def safe_name(name: str) -> str:
    """A chain's name made of a job's."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:90]
    return word if word and word[0].isalnum() else f"run-{word}".rstrip("-")


def proper_name(name: str) -> str:
    """A chain's name that was asked for; out, where it can be none: another one would not be found again."""
    if not NAME.fullmatch(name):
        common.fail(f"{NAME_RULE}; not {name[:100]!r}")
    return name


def job_id_of(record: ChainRecord) -> int | None:
    """The job that was submitted and that no poll has shown yet."""
    expected = record.facts.get("expected")
    return int(expected["job_id"]) if isinstance(expected, dict) else None
