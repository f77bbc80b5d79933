"""The documentation site: the pages of `docs/`, the runbook, and a reference that is generated from the code.

python -m dev.docs [BUILD]   writes BUILD/docs and, with mkdocs, BUILD/site (strict: a broken link fails)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from chainwatch.alerts.json_webhook import HEADER
from chainwatch.alerts.json_webhook import schema as webhook_schema
from chainwatch.cli.runbook import pages
from chainwatch.slurm.contract import CASES, MODULES
from chainwatch.store.counters import Counted
from chainwatch.web.metrics import GAUGES
from dev import configuration

ROOT = Path(__file__).parents[1]


def metrics() -> str:
    """Every metric, from the tables that render them."""
    out = ["# Metrics", "", "| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    rows = [("chainwatch_build_info", "info", ("version", "python"), "Version of chainwatch and of Python.")]
    rows += [(gauge.name, "gauge", gauge.labels, gauge.meaning) for gauge in GAUGES]
    rows += [(counted.metric, "counter", counted.labels, counted.meaning) for counted in Counted]
    out += [f"| `{name}` | {kind} | {', '.join(labels)} | {meaning} |" for name, kind, labels, meaning in rows]
    return "\n".join([*out, "", "Counters are kept in the state database: a restart of the daemon is no reset.", ""])


def webhook() -> str:
    """The JSON webhook."""
    text = json.dumps(webhook_schema(), indent=2)
    return (
        "# Webhook\n\nEach alert of a channel of `type: json` is a POST with this body. With a key it is signed: the\n"
        f"header `{HEADER}: t=SECONDS,v1=HEX` holds the HMAC-SHA256 of `SECONDS.BODY` under the key. Compute it again,\n"
        "compare in constant time, and refuse what is older than five minutes. Answer 2xx once it is kept: an alert\n"
        f"that gets no such answer comes again.\n\n```json\n{text}\n```\n"
    )


def contract() -> str:
    """Every case of the backends' contract, by what it is about."""
    out = [
        "# The backends' contract", "",
        "What chainwatch relies on, whatever Slurm and whatever backend: each sentence is a case of",
        "`chainwatch.slurm.contract`, played on real clusters of every release in the README's matrix and on the simulated",
        "one. Those that need nothing only read: `chainwatch doctor --contract` plays them on your cluster.", "",
    ]  # fmt: skip
    for module in MODULES:
        out += [f"## {(module.__doc__ or '').strip().splitlines()[0].rstrip('.')}", "", "| case | promise | needs |"]
        out += ["| --- | --- | --- |"]
        mine = [case for case in CASES if case.play.__module__ == module.__name__]
        out += [f"| `{case.name}` | {case.sentence} | {', '.join(sorted(case.needs)) or '-'} |" for case in mine]
        out += [""]
    return "\n".join(out)


def commands() -> str:
    """Every command with its help."""
    from typer.main import get_command

    from chainwatch.cli.app import app

    group: Any = get_command(app)
    out = ["# Commands", "", group.help or "", ""]
    for name, command in sorted(group.commands.items()):
        for title, one in [(name, command), *((f"{name} {n}", c) for n, c in getattr(command, "commands", {}).items())]:
            context = one.make_context(f"chainwatch {title}", [], resilient_parsing=True)
            out += [f"## {title}", "", "```", one.get_help(context), "```", ""]
    return "\n".join(out)


def write(build: Path) -> Path:
    """All pages under `build/docs`; nothing else is left there."""
    docs = build / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(ROOT / "docs", docs)
    for name, text in (
        ("configuration", configuration.page()),
        ("metrics", metrics()),
        ("webhook", webhook()),
        ("commands", commands()),
        ("contract", contract()),
    ):
        (docs / "reference").mkdir(exist_ok=True)
        (docs / "reference" / f"{name}.md").write_text(text)
    (docs / "runbook").mkdir()
    listed = ["# Runbook", "", "What each alert means and what to do; `chainwatch runbook NAME` prints the same.", ""]
    for name, text in sorted(pages().items()):
        (docs / "runbook" / f"{name}.md").write_text(text)
        listed.append(f"- [{text.splitlines()[0].lstrip('# ')}]({name}.md)")
    (docs / "runbook" / "index.md").write_text("\n".join([*listed, ""]))
    return docs


def site(build: Path) -> int:
    """The site by mkdocs, strict; its exit code."""
    docs = write(build)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    book = [{"All pages": "runbook/index.md"}, *(f"runbook/{name}.md" for name in sorted(pages()))]
    settings["nav"] = [{"Runbook": book} if "Runbook" in entry else entry for entry in settings["nav"]]
    settings |= {"docs_dir": str(docs), "site_dir": str(build / "site")}
    (build / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    # not --quiet: it would silence the very warnings that --strict counts
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(build / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(site(Path(sys.argv[1] if len(sys.argv) > 1 else "build")))
