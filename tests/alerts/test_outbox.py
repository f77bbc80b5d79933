"""Delivery: at least once, in order, not too often, and nothing lost."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.alerts import Deliverer, Kind, Report, body, build_all, routes_of
from chainwatch.alerts.outbox import LEDGER
from chainwatch.alerts.plan import Routes
from chainwatch.config.alerts import Alerts
from tests.alerts.conftest import START, FakeClock, Server, StoreOutbox, person, wait_until


class Desk:
    """A deliverer on real JSON webhooks and virtual time."""

    def __init__(self, outbox: StoreOutbox, clock: FakeClock, url_file: Path, **settings: Any) -> None:
        channels = settings.pop("channels", {"team": {}})
        routes: Routes = settings.pop("routes", lambda chain: None)
        full = {name: {"type": "json", "url_file": str(url_file), **more} for name, more in channels.items()}
        self.settings = Alerts.model_validate({"timezone": "UTC", "channels": full, **settings})
        self.outbox, self.clock, self.routes = outbox, clock, routes

    def run(self) -> Report:
        """As after a restart: nothing is kept but the outbox."""
        channels = build_all(self.settings.channels)
        desk = Deliverer(self.outbox, channels, self.settings, self.clock, self.routes, pause=lambda s: None)
        return desk.run_due()

    def run_for(self, every: timedelta = timedelta(minutes=1), **span: float) -> None:
        end = self.clock.at + timedelta(**span)
        while self.clock.at < end:
            self.clock.at += every
            self.run()

    def person(self, chain: str | None, key: str, **more: str) -> None:
        self.outbox.owe(chain, key, "critical", f"{chain} needs a person", person() | more, self.clock.at)

    def info(self, chain: str, key: str, kind: Kind = Kind.RECOVERY) -> None:
        self.outbox.owe(chain, key, "info", f"{chain} was resubmitted", body(kind, did="submitted"), self.clock.at)


@pytest.fixture
def desk(outbox: StoreOutbox, clock: FakeClock, url_file: Path) -> Desk:
    return Desk(outbox, clock, url_file)


def titles(server: Server) -> list[str]:
    return [d["alerts"][0]["title"] if len(d["alerts"]) == 1 else d["summary"] for d in server.documents]


def tones(server: Server) -> list[str]:
    return [alert["tone"] for document in server.documents for alert in document["alerts"]]


def test_what_needs_a_person_is_told_once_and_then_is_delivered(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a")
    assert desk.run().told == 1
    assert desk.run() == Report()
    assert len(server.requests) == 1
    assert not desk.outbox.undelivered()
    alert = server.documents[0]["alerts"][0]
    assert alert["line"] == "OSError: [Errno 122] Disk quota exceeded"
    assert alert["command"] == "chainwatch retry run-a"
    assert alert["runbook"] == "chainwatch runbook person"


def test_a_webhook_that_is_down_for_a_day_loses_nothing_and_is_not_hammered(desk: Desk, server: Server) -> None:
    server.script = [{"status": 503}] * 10_000
    for hour in range(24):
        desk.person(f"run-{hour:02}", f"k{hour}")
        desk.run_for(hours=1, every=timedelta(minutes=5))
    assert 24 <= len(server.requests) <= 80
    assert len(desk.outbox.undelivered()) == 24
    assert "503" in desk.outbox.undelivered()[0].last_error
    assert desk.outbox.store.counters() == [("alert_failures", {"channel": "team"}, len(server.requests))]
    server.script.clear()
    server.requests.clear()
    desk.run_for(hours=1)
    told = [alert["chain"] for document in server.documents for alert in document["alerts"]]
    assert told == [f"run-{hour:02}" for hour in range(24)]
    assert len(server.requests) == 1, "a burst comes as one message"
    assert not desk.outbox.undelivered()


def test_retry_after_is_honoured_across_a_restart(desk: Desk, server: Server) -> None:
    server.script = [{"status": 429, "headers": {"Retry-After": "3600"}}]
    desk.person("run-a", "a")
    desk.run()
    desk.run_for(minutes=59)
    assert len(server.requests) == 1
    desk.run_for(minutes=2)
    assert len(server.requests) == 2
    assert not desk.outbox.undelivered()


def test_alerts_of_one_chain_keep_their_order_when_one_is_refused(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a1")
    desk.person("run-a", "a2", what="the second")
    desk.person("run-b", "b1")
    server.script = [{"status": 400}, {"status": 400}]  # in full and in short
    desk.run()
    assert [alert["chain"] for d in server.documents[2:] for alert in d["alerts"]] == ["run-a", "run-b"]
    server.requests.clear()
    desk.run_for(minutes=3)
    assert [alert["key"] for d in server.documents for alert in d["alerts"]] == ["a1"]


def test_a_message_that_the_service_refuses_is_told_in_short(desk: Desk, server: Server) -> None:
    server.script = [{"status": 400}]
    desk.person("run-a", "a")
    desk.run()
    short = server.documents[1]["alerts"][0]
    assert short["line"] == ""
    assert short["command"] == "chainwatch retry run-a"
    assert not desk.outbox.undelivered()


def test_one_poisonous_alert_does_not_silence_its_chain_for_ever(desk: Desk, server: Server) -> None:
    desk.person("run-a", "poison")
    server.script = [{"status": 400}] * 2
    desk.run()
    desk.person("run-a", "later")
    for _ in range(12):
        server.script = [{"status": 400}] * 2 + [{}] * 5
        desk.run_for(hours=1, every=timedelta(minutes=30))
    assert "later" in {a["key"] for d in server.documents for a in d["alerts"]}


def test_in_a_digest_that_is_refused_only_the_culprit_waits(desk: Desk, server: Server) -> None:
    for n in range(6):
        desk.person(f"run-{n}", f"k{n}")
    server.script = [{"status": 413}, {}, {"status": 400}, {"status": 400}]
    desk.run()
    assert [n.key for n in desk.outbox.undelivered()] == ["k1"]


def test_recoveries_wait_for_the_daily_digest_but_the_first_and_the_end_do_not(desk: Desk, server: Server) -> None:
    desk.info("run-a", "first", Kind.FIRST_RECOVERY)
    desk.info("run-a", "second")
    desk.info("run-b", "third")
    desk.info("run-b", "end", Kind.DONE)
    desk.run()
    assert [a["kind"] for d in server.documents for a in d["alerts"]] == ["first_recovery", "done"]
    server.requests.clear()
    desk.run_for(hours=2)  # over 09:00
    assert [len(d["alerts"]) for d in server.documents] == [2]
    assert "Daily digest: 2 recovery; 2 chains" in server.documents[0]["summary"]
    desk.run_for(hours=23, every=timedelta(minutes=10))
    assert len(server.requests) == 1


def test_without_a_digest_informational_alerts_stay_in_status(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, digest="never")
    desk.info("run-a", "second")
    desk.run_for(hours=30, every=timedelta(hours=1))
    assert not server.requests
    assert not outbox.undelivered()


def test_people_are_reminded_at_growing_intervals_until_it_is_settled(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, reminders=["1h", "4h"])
    desk.person("run-a", "a")
    desk.run()
    desk.run_for(hours=10, every=timedelta(minutes=10))
    assert tones(server) == ["new", "reminder", "reminder", "reminder"]
    assert [a["times"] for d in server.documents for a in d["alerts"]] == [0, 1, 2, 3][:4]
    outbox.recover("a")
    desk.run_for(hours=10, every=timedelta(minutes=10))
    assert tones(server)[4:] == ["recovered"]
    assert outbox.recall(LEDGER)["entries"] == []


def test_what_recovers_before_it_could_be_told_is_told_once_as_settled(desk: Desk, server: Server) -> None:
    server.script = [{"status": 500}]
    desk.person("run-a", "a")
    desk.run()
    desk.outbox.recover("a")
    desk.run_for(hours=3)
    assert tones(server) == ["new", "late"]


def test_a_new_failure_under_the_same_key_is_told_again_after_recovery(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a")
    desk.run()
    desk.person("run-a", "a")
    desk.run()
    assert len(server.requests) == 1
    desk.outbox.recover("a")
    desk.person("run-a", "a")
    desk.run()
    assert tones(server) == ["new", "recovered", "new"]


def test_nobody_is_told_that_good_news_is_over(desk: Desk, server: Server) -> None:
    desk.info("run-a", "end", Kind.DONE)
    desk.run()
    desk.outbox.recover("end")
    desk.run()
    assert tones(server) == ["new"]


def test_escalation_hears_only_of_what_nobody_settled(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, channels={"team": {}, "boss": {"after": "2h"}}, reminders=[])
    desk.person("run-a", "settled")
    desk.person("run-b", "open")
    desk.run()
    assert not outbox.undelivered(), "escalation is extra"
    outbox.recover("settled")
    desk.run()
    server.requests.clear()
    desk.run_for(hours=3)
    assert [a["key"] for d in server.documents for a in d["alerts"]] == ["open"]


def test_each_channel_hears_what_is_its_own(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text(server.url.replace("services", "other"))
    other.chmod(0o600)
    channels = {
        "team": {"chains": ["run-*"]},
        "alarm": {"url_file": str(other), "severity": "critical"},
    }
    routes = {"sweep-1": ("alarm",), "quiet": ()}
    desk = Desk(outbox, clock, url_file, channels=channels, routes=lambda chain: routes.get(chain))
    desk.person("run-a", "1")
    desk.info("run-a", "2", Kind.DONE)
    desk.person("sweep-1", "3")
    desk.person("quiet", "4")
    outbox.owe(None, "5", "critical", "Slurm does not answer", body(Kind.BLIND), clock.at)
    desk.run()
    heard = {
        (path.split("/")[1], a["key"])
        for (_, path, _, _), d in zip(server.requests, server.documents, strict=True)
        for a in d["alerts"]
    }
    assert heard == {
        ("services", "1"),
        ("services", "2"),
        ("other", "1"),
        ("other", "3"),
        ("services", "5"),
        ("other", "5"),
    }
    assert not outbox.undelivered()


def test_a_broken_channel_does_not_keep_the_other_from_telling_and_is_told_later_alone(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server, tmp_path: Path
) -> None:
    missing = tmp_path / "later"
    desk = Desk(outbox, clock, url_file, channels={"team": {}, "other": {"url_file": str(missing)}})
    desk.person("run-a", "a")
    report = desk.run()
    assert (report.told, report.failed) == (1, 1)
    assert "cannot open" in report.problems[0]
    assert len(outbox.undelivered()) == 1
    missing.write_text(server.url + "/2")
    missing.chmod(0o600)
    desk.run_for(minutes=5)
    assert [path for _, path, _, _ in server.requests] == ["/services/verysecret", "/services/verysecret/2"]
    assert not outbox.undelivered()


def test_a_mute_window_holds_back_and_then_tells(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(
        outbox, clock, url_file, mute=[{"from": "22:00", "to": "07:00", "chains": ["sweep-*"], "critical": True}]
    )
    clock.at = START.replace(hour=23)
    desk.person("sweep-1", "a")
    desk.person("run-a", "b")
    desk.run_for(hours=7, every=timedelta(minutes=10))
    assert {a["key"] for d in server.documents for a in d["alerts"]} == {"b"}
    desk.run_for(hours=2, every=timedelta(minutes=10))
    assert {a["key"] for d in server.documents for a in d["alerts"]} == {"a", "b"}


def test_a_flood_over_the_hourly_allowance_comes_as_one(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, channels={"team": {"per_hour": 5}})
    for n in range(50):
        desk.outbox.owe(f"run-{n}", f"k{n}", "warning", f"warning {n}", body(Kind.CHANGED), clock.at)
        desk.run()
        clock.forward(seconds=30)
    assert len(server.requests) == 5
    desk.run_for(hours=2, every=timedelta(minutes=5))
    assert len(server.requests) == 6 + 1  # 45 come in two parts
    assert sum(len(d["alerts"]) for d in server.documents) == 50


def test_a_crash_after_telling_repeats_nothing_that_was_written_down(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a")
    closes, desk.outbox.delivered = desk.outbox.delivered, lambda *a: (_ for _ in ()).throw(SystemExit)  # type: ignore[method-assign,assignment]
    with pytest.raises(SystemExit):
        desk.run()
    desk.outbox.delivered = closes  # type: ignore[method-assign]
    desk.run()
    assert len(server.requests) == 1
    assert not desk.outbox.undelivered()


def test_a_ledger_that_cannot_be_read_tells_again_rather_than_never(desk: Desk, server: Server) -> None:
    desk.outbox.remember(LEDGER, {"entries": [{"notice": 3}], "endpoints": {"team": {"next_try": "soon"}}})
    desk.person("run-a", "a")
    assert desk.run().told == 1


def test_without_channels_alerts_stay_owed(outbox: StoreOutbox, clock: FakeClock, url_file: Path) -> None:
    desk = Desk(outbox, clock, url_file, channels={})
    desk.person("run-a", "a")
    desk.run()
    assert len(outbox.undelivered()) == 1


def test_a_new_channel_is_not_flooded_with_what_others_were_told(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    Desk(outbox, clock, url_file).person("run-a", "a")
    Desk(outbox, clock, url_file).run()
    Desk(outbox, clock, url_file, channels={"team": {}, "new": {}}).run()
    assert len(server.requests) == 1


def test_a_channel_with_a_bug_is_reported_and_the_others_go_on(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, channels={"team": {}, "broken": {}})
    channels = build_all(desk.settings.channels)
    channels["broken"].tell = lambda *a: 1 / 0  # type: ignore[method-assign,assignment]
    desk.person("run-a", "a")
    report = Deliverer(outbox, channels, desk.settings, clock, pause=lambda s: None).run_due()
    assert report.told == 1
    assert "ZeroDivisionError" in report.problems[0]


def test_when_the_time_is_up_the_rest_waits_for_the_next_run(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a")
    desk.person("run-b", "b")
    slow = Deliverer(
        desk.outbox,
        build_all(desk.settings.channels),
        desk.settings,
        desk.clock,
        pause=lambda s: desk.clock.forward(seconds=99),
    )
    report = slow.run_due(timedelta(seconds=0))
    assert (report.told, report.left) == (0, 2)
    assert desk.run().told == 2


def test_nobody_is_reminded_of_a_chain_that_was_forgotten(desk: Desk, server: Server) -> None:
    desk.person("run-a", "a")
    desk.run()
    desk.outbox.store.forget_chain("run-a")
    desk.run_for(hours=30, every=timedelta(hours=1))
    assert tones(server) == ["new", "recovered"]


def test_the_loop_may_write_while_people_are_told(desk: Desk, server: Server) -> None:
    """The deliverer works in a thread of its own and holds no transaction while it waits for a server."""
    server.script = [{"stall": True}]
    desk.settings = desk.settings.model_copy(
        update={
            "channels": {"team": desk.settings.channels["team"].model_copy(update={"deadline": timedelta(seconds=2)})}
        }
    )
    desk.person("run-a", "a")
    thread = threading.Thread(target=desk.run)
    thread.start()
    wait_until(lambda: server.requests)
    begun = time.monotonic()
    desk.outbox.store.update_chain("run-a", sentence="still turning")
    assert time.monotonic() - begun < 1
    thread.join(10)


def test_a_chain_names_its_channels_in_its_own_settings(
    outbox: StoreOutbox, clock: FakeClock, url_file: Path, server: Server
) -> None:
    desk = Desk(outbox, clock, url_file, channels={"team": {}}, routes=routes_of(outbox.store))
    desk.person("run-a", "a")
    desk.person("run-b", "b")
    outbox.store.update_chain("run-a", settings={"alerts": ["other"]})
    outbox.store.update_chain("run-b", settings={"alerts": ["team"]})
    desk.run()
    assert [a["key"] for d in server.documents for a in d["alerts"]] == ["b"]
