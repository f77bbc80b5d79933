"""Checks of the set-up: the configured scripts, the alert channels, and who else is at work."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from chainwatch.config.alerts import WebChannel
from chainwatch.config.secrets import SecretUnusable
from chainwatch.config.site import PAUSE_FILE, SITE_FILE, SiteError, apply, load_site, pause_reason
from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.lint import Site, lint
from chainwatch.doctor.past import Past, of_chain
from chainwatch.doctor.preemption import rules
from chainwatch.model.plain_file import text_of
from chainwatch.slurm import NoInformation
from chainwatch.store import StoreError, open_store


def scripts(patient: Patient) -> Iterator[Finding]:
    """`lint` of every configured script, told what the site sets already; each script once."""
    if patient.config is None:
        return
    past = _past(patient)
    known = rules(patient) if patient.slurm else None
    for batch, (name, chain) in {c.batch: (n, c) for n, c in reversed(patient.config.chains.items())}.items():
        try:
            text = text_of(batch)
        except OSError as error:
            yield Finding(
                "script",
                Level.PROBLEM,
                f"{batch} cannot be read: {error.strerror}",
                "Nothing can be submitted.",
                "Name an existing script with batch:.",
            )
            continue
        preempted = known.of(chain, text) if known else None
        site = site_of(patient, past.get(name), preempted[1].grace if preempted else None)
        found = lint(text, site)
        yield from (replace(f, what=f"{name}: {f.what}", line=None) for f in found if f.code == "save_interval")
        problems = [finding for finding in found if finding.level is Level.PROBLEM]
        if problems:
            yield Finding(
                "script",
                Level.PROBLEM,
                f"{batch} has {len(problems)} known gap{'s' if len(problems) > 1 else ''}: "
                f"{', '.join(sorted({finding.code for finding in problems}))}",
                problems[0].why,
                f"chainwatch lint {batch}",
            )
        else:
            yield Finding("script", Level.OK, f"{batch} has no known gap")


def _past(patient: Patient) -> dict[str, Past]:
    """What the state remembers of each configured chain; nothing where there is none yet."""
    assert patient.config is not None, "asked only with a configuration"
    try:
        store = open_store(patient.config.state, patient.config.database, create=False)
    except StoreError:
        return {}
    try:
        return {name: past for name in patient.config.chains if (past := of_chain(store, name)) is not None}
    finally:
        store.close()


def site_of(patient: Patient, past: Past | None, grace: timedelta | None) -> Site:
    """What slurm.conf settles for the lint, what preemption leaves to the job, and what its past says."""
    slurm, past = patient.slurm, past or Past()
    return Site(
        grace=grace or None,
        between_failures=past.between_failures,
        save_every=past.save_every,
        save_takes=past.save_takes,
        kill_on_bad_exit=None if "KillOnBadExit" not in slurm else slurm["KillOnBadExit"] == "1",
        requeue=None if "JobRequeue" not in slurm else slurm["JobRequeue"] == "1",
    )


def site(patient: Patient) -> Iterator[Finding]:
    """The site's limits, and what they take from this configuration."""
    try:
        limits = load_site(patient.root / SITE_FILE.relative_to("/"), owner=patient.site_owner)
    except SiteError as error:
        yield Finding("site", Level.PROBLEM, str(error), "The daemon does not start.", "See the sentence above.")
        return
    if reason := pause_reason(patient.root / PAUSE_FILE.relative_to("/")):
        yield Finding(
            "site_pause", Level.PROBLEM, f"the site has paused every action: {reason}", "Nothing is submitted.", "Wait."
        )
    for sentence in apply(limits, patient.config)[1] if patient.config else ():
        yield Finding("site", Level.ADVICE, sentence, "The site's word stands above yours.", "Change it to match.")


def channels(patient: Patient) -> Iterator[Finding]:
    """Secrets can be read, and hosts can be reached. Nothing is posted: `chainwatch alert test` does that."""
    alerts = patient.config.alerts if patient.config else None
    if alerts is None:
        return
    if not alerts.channels:
        yield Finding(
            "no_channel",
            Level.PROBLEM,
            "no alert channel is configured",
            "When a chain needs a person, nobody hears of it.",
            "Add one under alerts: channels:, then try it with `chainwatch alert test`.",
        )
    if alerts.heartbeat is None:
        yield Finding(
            "no_heartbeat",
            Level.ADVICE,
            "no heartbeat is configured",
            "When this machine goes down, chainwatch cannot say so.",
            "Add alerts: heartbeat: with the URL of a dead man's switch, or watch its metrics.",
        )
    web = {**alerts.channels, **({"heartbeat": alerts.heartbeat} if alerts.heartbeat else {})}
    for name, channel in web.items():
        if not isinstance(channel, WebChannel):
            continue
        try:
            url = urlsplit(channel.proxy or channel.secret("url", name))
            host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
            with socket.create_connection((host, port), timeout=5):
                yield Finding("channel", Level.OK, f"{host}:{port} (alert channel {name}) can be reached")
        except SecretUnusable as error:
            yield Finding("channel", Level.PROBLEM, str(error), "Its alerts reach nobody.", "See the sentence above.")
        except (OSError, ValueError) as error:
            yield Finding(
                "channel",
                Level.PROBLEM,
                f"the host of alert channel {name} cannot be reached from here: {type(error).__name__}",
                "Its alerts reach nobody.",
                "Check the address; where the site needs a proxy, name it with proxy:.",
            )


def instances(patient: Patient) -> Iterator[Finding]:
    """Another daemon on this state, and another state directory whose jobs are in the queue."""
    if patient.config is None:
        return
    try:
        store = open_store(patient.config.state, patient.config.database, create=False)
    except StoreError as error:
        yield Finding("state", Level.UNKNOWN, str(error))
        return
    try:
        own = store.instance
        if holder := store.at_work(patient.now):
            yield Finding("daemon", Level.OK, f"a daemon is at work: {holder}")
        else:
            yield Finding(
                "daemon",
                Level.ADVICE,
                "no daemon is at work on this state",
                "Nobody keeps the chains alive.",
                "chainwatch run, or chainwatch install-service.",
            )
    finally:
        store.close()
    try:
        text = patient.ask("squeue", "-h", "-u", patient.user, "-o", "%k").text
    except NoInformation:
        return
    others = set(re.findall(r"chainwatch=([0-9a-f]{8})/", text)) - {own.replace("-", "")[:8]}
    if others:
        yield Finding(
            "other_instances",
            Level.ADVICE,
            f"the queue has jobs of other chainwatch state directories ({len(others)})",
            "Two daemons that watch the same run would resubmit it twice.",
            "See that no chain is configured in both.",
        )
