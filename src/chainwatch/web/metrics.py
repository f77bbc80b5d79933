"""Prometheus metrics: a pure rendering of one `View`. The set is documented and stable: `METRICS` is the reference.

Counters are kept in the store, so a restart of the daemon is no reset. The number of series is bounded by the number of
chains shown (`web: max_chains`) and by closed lists of words.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from chainwatch import __version__
from chainwatch.model.chain import ChainState
from chainwatch.model.plain_file import gives_way
from chainwatch.store.counters import Counted
from chainwatch.store.records import ChainRecord
from chainwatch.store.standing import Standing, standing
from chainwatch.web.view import View


@dataclass(frozen=True, slots=True)
class Gauge:
    """One documented gauge."""

    name: str
    labels: tuple[str, ...]
    meaning: str


GAUGES = (
    Gauge("chainwatch_chains", ("state",), "Chains by state."),
    Gauge("chainwatch_chains_not_shown", (), "Chains without metrics of their own, since there are too many."),
    Gauge("chainwatch_chain_state", ("chain", "state"), "1 for the state that the chain is in, 0 for the others."),
    Gauge("chainwatch_chain_state_since_timestamp_seconds", ("chain",), "When the chain entered its state."),
    Gauge("chainwatch_chain_acting", ("chain",), "1 in mode act, 0 in mode observe."),
    Gauge("chainwatch_chain_step", ("chain",), "Newest training step that was reached."),
    Gauge("chainwatch_chain_saved_step", ("chain",), "Newest training step in an intact checkpoint."),
    Gauge("chainwatch_chain_target_step", ("chain",), "Final training step."),
    Gauge("chainwatch_chain_steps_per_second", ("chain",), "Rate of training over the recent past."),
    Gauge("chainwatch_chain_eta_seconds", ("chain",), "Seconds of training left at the present rate."),
    Gauge(
        "chainwatch_chain_eta_overall_seconds",
        ("chain",),
        "Seconds until the final step at the pace of the last seven days, interruptions included.",
    ),
    Gauge("chainwatch_chain_at_risk_steps", ("chain",), "Steps since the newest intact checkpoint, of a running job."),
    Gauge(
        "chainwatch_chain_at_risk_seconds",
        ("chain",),
        "Seconds of training since the newest intact checkpoint, at the present rate: lost if the job ended now.",
    ),
    Gauge("chainwatch_chain_step_timestamp_seconds", ("chain",), "When the newest step was first seen."),
    Gauge("chainwatch_chain_tokens", ("chain",), "Tokens trained on, where the log tells them."),
    Gauge("chainwatch_chain_loss", ("chain",), "Newest loss that the log tells."),
    Gauge("chainwatch_excluded_nodes", (), "Nodes that some chain keeps away from."),
    Gauge("chainwatch_alerts_owed", ("severity",), "Alerts that nobody got yet; those for the daily digest are info."),
    Gauge(
        "chainwatch_oldest_alert_owed_seconds", (), "Age of the oldest warning or critical alert that nobody got yet."
    ),
    Gauge("chainwatch_poll_duration_seconds", ("cluster", "source"), "How long the newest question took."),
    Gauge("chainwatch_last_good_poll_timestamp_seconds", ("cluster", "source"), "When the source last answered."),
    Gauge("chainwatch_poll_interval_seconds", (), "Time between two polls, as configured."),
    Gauge("chainwatch_loop_timestamp_seconds", (), "When the loop last turned."),
    Gauge("chainwatch_start_timestamp_seconds", (), "When the daemon started."),
    Gauge("chainwatch_blind", (), "1 if some cluster's queue has not answered for several polls."),
    Gauge("chainwatch_paused_by_site", (), "1 if the site's PAUSE file stops every action."),
)
"""Every gauge. Counters: `store.counters.Counted`. And `chainwatch_build_info{version,python}`."""
_BY_NAME = {gauge.name: gauge for gauge in GAUGES}
K = TypeVar("K", bound=tuple[str, ...])
TEXT, OPENMETRICS = CONTENT_TYPE_LATEST, openmetrics.CONTENT_TYPE_LATEST


def names() -> frozenset[str]:
    """All names that a query can ask for."""
    return frozenset({*_BY_NAME, "chainwatch_build_info", *(counted.metric for counted in Counted)})


def render(view: View, *, max_chains: int = 200, open_metrics: bool = False) -> bytes:
    """The metrics in Prometheus' text format, or as OpenMetrics."""
    registry = CollectorRegistry()
    registry.register(_Collector(view, max_chains))
    if open_metrics:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text
    return generate_latest(registry)


def write_textfile(path: Path, view: View, *, max_chains: int = 200) -> None:
    """Write the text format for node_exporter, by a rename, so that it never reads half a file. Raises OSError, also where
    PATH is something else than metrics."""
    gives_way(path, lambda head: head.startswith(b"# HELP "))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(render(view, max_chains=max_chains))
        os.chmod(name, 0o644)  # node_exporter runs as somebody else
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def shown(view: View, most: int) -> tuple[ChainRecord, ...]:
    """The chains with metrics of their own: live ones first, then the newest; in order of their names."""

    def rank(chain: ChainRecord) -> tuple[bool, float]:
        return chain.state.quiet, -(chain.state_since or chain.created).timestamp()

    return tuple(sorted(sorted(view.chains, key=rank)[:most], key=lambda chain: chain.name))


class _Collector(Collector):
    def __init__(self, view: View, max_chains: int) -> None:
        self._view, self._chains = view, shown(view, max_chains)

    def describe(self) -> Iterable[Metric]:
        return []  # nothing is collected at registration

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "chainwatch_build",
            "Version of chainwatch and of Python.",
            value={"version": __version__, "python": ".".join(map(str, sys.version_info[:3]))},
        )
        yield from self._of_chains()
        yield from self._of_alerts()
        yield from self._of_the_loop()
        yield from self._counters()

    def _of_chains(self) -> Iterator[Metric]:
        states = Counter(chain.state for chain in self._view.chains)
        yield _gauge("chainwatch_chains", {(state.value,): states[state] for state in ChainState})
        yield _gauge("chainwatch_chains_not_shown", {(): len(self._view.chains) - len(self._chains)})
        chains = self._chains
        yield _gauge(
            "chainwatch_chain_state", {(c.name, s.value): float(c.state is s) for c in chains for s in ChainState}
        )
        since = {c.name: c.state_since.timestamp() for c in chains if c.state_since}
        yield _per_chain("chainwatch_chain_state_since_timestamp_seconds", since)
        yield _per_chain("chainwatch_chain_acting", {c.name: float(c.mode.value == "act") for c in chains})
        yield _per_chain("chainwatch_chain_step", {c.name: c.step for c in chains})
        yield _per_chain("chainwatch_chain_saved_step", {c.name: c.saved_step for c in chains})
        yield _per_chain("chainwatch_chain_target_step", {c.name: c.target for c in chains})
        stands = {c.name: standing(c, self._view.now) for c in chains}
        of: tuple[tuple[str, Callable[[Standing], float | None]], ...] = (
            ("steps_per_second", lambda s: s.steps_per_second),
            ("eta_seconds", lambda s: s.eta_seconds),
            ("eta_overall_seconds", lambda s: s.eta_overall_seconds),
            ("at_risk_steps", lambda s: s.at_risk_steps),
            ("at_risk_seconds", lambda s: s.at_risk_seconds),
            ("step_timestamp_seconds", lambda s: s.step_at.timestamp() if s.step_at else None),
            ("tokens", lambda s: s.tokens),
            ("loss", lambda s: None if s.loss is None else float(s.loss)),
        )
        for name, value in of:
            yield _per_chain(f"chainwatch_chain_{name}", {chain: value(s) for chain, s in stands.items()})
        nodes = {excluded.node for excluded in self._view.excluded}
        yield _gauge("chainwatch_excluded_nodes", {(): len(nodes)})

    def _of_alerts(self) -> Iterator[Metric]:
        owed = Counter(notice.severity for notice in self._view.owed)
        yield _gauge("chainwatch_alerts_owed", {(word,): owed[word] for word in ("info", "warning", "critical")})
        ages = [(self._view.now - n.created).total_seconds() for n in self._view.owed if n.severity != "info"]
        yield _gauge("chainwatch_oldest_alert_owed_seconds", {(): max(ages, default=0.0)})

    def _of_the_loop(self) -> Iterator[Metric]:
        pulse = self._view.pulse
        if pulse is None:
            return
        keys = {(poll.cluster, poll.source): poll for poll in pulse.polls}
        durations = {key: poll.seconds for key, poll in keys.items() if poll.seconds is not None}
        good = {key: poll.last_good.timestamp() for key, poll in keys.items() if poll.last_good is not None}
        yield _gauge("chainwatch_poll_duration_seconds", durations)
        yield _gauge("chainwatch_last_good_poll_timestamp_seconds", good)
        yield _gauge("chainwatch_poll_interval_seconds", {(): pulse.interval.total_seconds()})
        yield _gauge("chainwatch_loop_timestamp_seconds", {(): pulse.at.timestamp()})
        yield _gauge("chainwatch_start_timestamp_seconds", {(): pulse.started.timestamp()})
        yield _gauge("chainwatch_blind", {(): float(bool(pulse.blind(self._view.now)))})
        yield _gauge("chainwatch_paused_by_site", {(): float(bool(pulse.paused_by_site))})

    def _counters(self) -> Iterator[Metric]:
        names = {chain.name for chain in self._chains}
        for counted in Counted:
            family = CounterMetricFamily(counted.metric, counted.meaning, labels=counted.labels)
            rows = [(labels, value) for word, labels, value in self._view.counters if word == counted.word]
            for labels, value in rows:
                if set(labels) == set(counted.labels) and ("chain" not in labels or labels["chain"] in names):
                    family.add_metric([_label(labels[name]) for name in counted.labels], value)
            if not counted.labels and not rows:
                family.add_metric([], 0)
            yield family


def _gauge(name: str, values: Mapping[K, float | None]) -> Metric:
    family = GaugeMetricFamily(name, _BY_NAME[name].meaning, labels=_BY_NAME[name].labels)
    for labels, value in values.items():
        if value is not None:
            family.add_metric([_label(text) for text in labels], value)
    return family


def _per_chain(name: str, values: Mapping[str, float | None]) -> Metric:
    return _gauge(name, {(chain,): value for chain, value in values.items()})


def _label(text: str) -> str:
    """A label value that every scraper can read: valid UTF-8, no control characters, of bounded length."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:200]
