"""The metrics: documented, bounded, and read back by Prometheus' own parsers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from chainwatch.model.chain import ChainState
from chainwatch.store import open_store
from chainwatch.store.counters import Counted, count
from chainwatch.web import metrics
from chainwatch.web.view import View, look
from tests.web.conftest import NOW, MemoryReads, chain, pulse


def samples(
    view: View, open_metrics: bool = False, **more: int
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.render(view, open_metrics=open_metrics, **more).decode()
    families = parse_openmetrics(text) if open_metrics else parse_text(text)  # type: ignore[no-untyped-call]
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


@pytest.mark.parametrize("open_metrics", [False, True])
def test_everything_documented_is_there_and_nothing_else(store: MemoryReads, open_metrics: bool) -> None:
    found = samples(look(store, NOW, pulse()), open_metrics)
    assert {name for name, _ in found} == metrics.names()


def test_a_chain_is_described(store: MemoryReads) -> None:
    found = samples(look(store, NOW, pulse()))
    one = (("chain", "run-a"),)
    assert found["chainwatch_chain_step", one] == 4000
    assert found["chainwatch_chain_saved_step", one] == 3900
    assert found["chainwatch_chain_eta_seconds", one] == 3000
    assert found["chainwatch_chain_at_risk_seconds", one] == 50
    assert found["chainwatch_chain_eta_overall_seconds", one] == pytest.approx(60_000)
    assert (found["chainwatch_chain_at_risk_steps", one], found["chainwatch_chain_tokens", one]) == (100, 8_000_000)
    assert found["chainwatch_chain_state", (*one, ("state", "running"))] == 1
    assert found["chainwatch_chain_state", (*one, ("state", "done"))] == 0
    assert found["chainwatch_alerts_owed", (("severity", "critical"),)] == 1
    assert found["chainwatch_oldest_alert_owed_seconds", ()] == 300
    assert found["chainwatch_excluded_nodes", ()] == 1


def test_what_is_not_known_has_no_sample(store: MemoryReads) -> None:
    found = samples(look(store, NOW, None))
    assert not [key for key in found if key[0] == "chainwatch_chain_step" and ("chain", "run-b") in key[1]]
    assert not [key for key in found if key[0].startswith(("chainwatch_blind", "chainwatch_loop"))]


def test_hostile_names_survive_the_format(store: MemoryReads) -> None:
    names = {dict(labels).get("chain") for _, labels in samples(look(store, NOW, None))}
    assert 'odd\ufffdname é "quoted" \\' in names


def test_the_number_of_series_is_bounded_and_live_chains_come_first(store: MemoryReads) -> None:
    store.rows = [chain(f"c{n:04}", ChainState.DONE if n % 10 else ChainState.RUNNING) for n in range(1000)]
    for record in store.rows:
        count(store, Counted.HANGS, chain=record.name)
    found = samples(look(store, NOW, pulse()), max_chains=100)
    shown = {dict(labels)["chain"] for name, labels in found if name == "chainwatch_chain_state"}
    assert shown == {f"c{n:04}" for n in range(0, 1000, 10)}
    assert found["chainwatch_chains_not_shown", ()] == 900
    assert found["chainwatch_chains", (("state", "done"),)] == 900
    assert len([1 for name, _ in found if name == "chainwatch_hangs_total"]) == 100
    assert len(found) < 100 * 20


def test_counters_that_this_version_does_not_know_are_left_out(store: MemoryReads) -> None:
    store.bump("mystery", {"chain": "run-a"})
    store.bump("hangs", {"user": "x"})
    assert {name for name, _ in samples(look(store, NOW, pulse()))} == metrics.names()


def test_counting_with_wrong_labels_is_found_at_once(store: MemoryReads) -> None:
    with pytest.raises(ValueError, match="counted by"):
        count(store, Counted.POLLS, chain="x")


def test_blindness_and_a_stuck_loop_are_told_apart() -> None:
    well = pulse()
    assert well.alive(NOW)
    assert not well.blind(NOW)
    late = NOW + timedelta(minutes=20)
    assert not well.alive(late)
    assert pulse(at=late, next_turn=late + timedelta(minutes=10)).alive(late + timedelta(minutes=12))
    assert "has not answered for 20 minutes" in pulse(at=late).blind(late)
    assert "no cluster was asked" in pulse(polls=()).blind(NOW)


def test_the_textfile_is_replaced_as_a_whole_and_can_be_read_by_others(store: MemoryReads, tmp_path: Path) -> None:
    file = tmp_path / "chainwatch.prom"
    for _ in range(2):
        metrics.write_textfile(file, look(store, NOW, None))
    assert [p.name for p in tmp_path.iterdir()] == ["chainwatch.prom"]
    assert file.stat().st_mode & 0o777 == 0o644
    assert "chainwatch_chain_step" in file.read_text()
    with pytest.raises(OSError, match="No such file"):
        metrics.write_textfile(tmp_path / "none" / "x.prom", look(store, NOW, None))


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert all(re.fullmatch(r"chainwatch_[a-z_]+", name) for name in metrics.names())
    assert all(name.endswith("_total") == (name in {c.metric for c in Counted}) for name in metrics.names())


def test_counters_survive_a_restart_of_the_daemon(tmp_path: Path) -> None:
    for expected in (1, 2):
        real = open_store(tmp_path / "state")
        count(real, Counted.POLLS, cluster="c1", source="squeue")
        found = samples(look(real, NOW, None))
        assert found["chainwatch_polls_total", (("cluster", "c1"), ("source", "squeue"))] == expected
        real.close()
