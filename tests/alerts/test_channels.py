"""What each channel says: complete, within the service's limits, and without anything from a log taking effect."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chainwatch.alerts import HeartbeatSender, build_all, mattermost, slack
from chainwatch.alerts.channel import Channel, Told, TryLater
from chainwatch.alerts.json_webhook import HEADER, WebhookDocument, schema
from chainwatch.alerts.message import Message, Tone, from_notice, plain
from chainwatch.config.alerts import Alerts, Heartbeat
from chainwatch.store.records import Notice
from tests.alerts.conftest import START, Server, person

EVIL = "@channel <!here> <@U1> [x](http://evil) ```` ` *b* &lt; \x1b[31m\u202e https://evil <script>alert(1)</script>"


def message(**more: Any) -> Message:
    said = person() | more.pop("said", {})
    return from_notice(Notice(7, "run-a", "a", "critical", "run-a needs a person", said, START), **more)


def evil() -> Message:
    keys = ("what", "why", "line", "source", "did", "wants", "runbook", "kind")
    notice = Notice(
        7, EVIL, EVIL, "critical", EVIL, dict.fromkeys(keys, EVIL) | {"command": "chainwatch retry x"}, START
    )
    return from_notice(notice)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


@pytest.mark.parametrize("render", [slack.payload, mattermost.payload])
def test_a_message_says_what_why_the_line_the_want_and_the_command(render: Any) -> None:
    text = "\n".join(strings(render([message()], "run-a needs a person"))).replace("\\", "")
    for part in ("run-a", "attempt 7 (job 4711) failed", "disk quota is full", "[Errno 122] Disk quota exceeded"):
        assert part in text
    for part in ("/logs/4711.out:812", "Free some space", "chainwatch retry run-a", "chainwatch runbook person"):
        assert part in text


def test_slack_gets_no_markup_from_a_log() -> None:
    document = slack.payload([evil()], EVIL)
    assert "<" not in document["text"]
    assert "@channel" not in document["text"]
    blocks = json.dumps(document["blocks"], ensure_ascii=False)
    assert '"mrkdwn"' not in blocks, "every text element is literal"
    assert "\x1b" not in blocks
    assert "\u202e" not in blocks


def test_slack_messages_stay_within_its_limits() -> None:
    long = from_notice(
        Notice(
            1,
            "c" * 300,
            "k",
            "critical",
            "t" * 999,
            dict.fromkeys(("what", "why", "did", "wants", "line"), "x" * 9999),
            START,
        )
    )
    for messages in ([long], [long] * 100):
        blocks = slack.payload(messages, "s" * 9999)["blocks"]
        assert len(blocks) <= 50
        for block in blocks:
            limit = 150 if block["type"] == "header" else 3000
            assert all(len(text) <= limit for text in strings(block))


def test_mattermost_gets_no_mention_and_no_markup_from_a_log() -> None:
    text = mattermost.payload([evil()], EVIL)["text"]
    assert "@channel" not in text
    assert "@here" not in text
    outside = "".join(text.split("`````")[::2])
    assert "[x](http" not in outside
    assert "<script>" not in outside
    assert len(mattermost.payload([evil()] * 40, EVIL)["text"]) <= 16383


def test_mattermost_digests_stay_within_its_limit() -> None:
    long = from_notice(Notice(1, "c" * 300, "k", "critical", "_" * 999, {"wants": "*" * 9999}, START))
    assert len(mattermost.payload([long] * 40, "s")["text"]) <= 16383


def test_plain_text_has_no_control_characters() -> None:
    assert all(c == "\n" or c.isprintable() for c in plain(evil()))


def channels(server: Server, tmp_path: Path, **settings: Any) -> dict[str, Channel]:
    url = tmp_path / "url"
    url.write_text(server.url)
    url.chmod(0o600)
    settings = {"url_file": str(url), **settings}
    return build_all(Alerts.model_validate({"channels": {"team": settings}}).channels)


@pytest.mark.parametrize("kind", ["slack", "mattermost", "json"])
def test_a_webhook_takes_it_over_real_http(server: Server, tmp_path: Path, kind: str) -> None:
    channel = channels(server, tmp_path, type=kind)["team"]
    assert channel.tell([message()], "s", START) == Told()
    method, path, headers, data = server.requests[0]
    assert (method, path, headers["Content-Type"]) == ("POST", "/services/verysecret", "application/json")
    assert json.loads(data)


@pytest.mark.parametrize("kind", ["slack", "mattermost"])
def test_a_captive_portal_is_not_taken_for_the_service(server: Server, tmp_path: Path, kind: str) -> None:
    server.reply = b"<html>Log in to the guest network</html>"
    assert isinstance(channels(server, tmp_path, type=kind)["team"].tell([message()], "s", START), TryLater)


def test_the_json_webhook_follows_its_schema_and_its_signature_can_be_checked(server: Server, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("shared\n")
    key.chmod(0o600)
    channels(server, tmp_path, type="json", key_file=str(key))["team"].tell([message(), evil()], "two", START)
    _, _, headers, data = server.requests[0]
    document = WebhookDocument.model_validate_json(data)
    assert document.alerts[0].chain == "run-a"
    stamp, given = (part.split("=", 1)[1] for part in headers[HEADER].split(","))
    assert int(stamp) == START.timestamp()
    assert given == hmac.new(b"shared", stamp.encode() + b"." + data, hashlib.sha256).hexdigest()
    assert set(schema()["required"]) == {"version", "summary", "alerts"}


def test_a_rotated_address_is_used_without_a_restart(server: Server, tmp_path: Path) -> None:
    channel = channels(server, tmp_path, type="json")["team"]
    channel.tell([message()], "s", START)
    (tmp_path / "url").write_text(server.url + "/new")
    channel.tell([message()], "s", START)
    assert [path for _, path, _, _ in server.requests] == ["/services/verysecret", "/services/verysecret/new"]


def test_no_error_of_any_channel_names_its_secret(server: Server, tmp_path: Path) -> None:
    for kind in ("slack", "mattermost", "json"):
        for step in (
            {"status": 500},
            {"status": 404},
            {"status": 302},
            {"hang_up": True},
            {"status": 307, "headers": {"Location": "http://x.invalid/verysecret"}},
        ):
            server.script = [step]
            channel = channels(server, tmp_path, type=kind)["team"]
            answer = channel.tell([message()], "s", START)
            assert not isinstance(answer, Told)
            assert "verysecret" not in repr(answer)
            assert "verysecret" not in repr(vars(channel))


def mail(tmp_path: Path, script: str, **settings: Any) -> Channel:
    program = tmp_path / "sendmail"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib, time\nout = pathlib.Path({str(tmp_path)!r})\n{script}\n"
    )
    program.chmod(0o755)
    settings = {"type": "email", "to": ["a@example.org", "b@example.org"], "sendmail": str(program), **settings}
    return build_all(Alerts.model_validate({"channels": {"mail": settings}}).channels)["mail"]


KEEP = "(out / 'mail').write_bytes(sys.stdin.buffer.read()); (out / 'args').write_text(' '.join(sys.argv[1:]))"


def test_sendmail_gets_one_plain_mail_for_all_addresses(tmp_path: Path) -> None:
    title = "run-a needs a person\r\nBcc: evil@example.org"
    assert mail(tmp_path, KEEP).tell([message()], title, START) == Told()
    text = (tmp_path / "mail").read_bytes().decode()
    head, _, content = text.partition("\r\n\r\n")
    assert (tmp_path / "args").read_text() == "-oi -- a@example.org b@example.org"
    assert "\r\nBcc:" not in head
    assert "Subject: [chainwatch] run-a needs a person Bcc: evil@example.org" in head
    assert "Auto-Submitted: auto-generated" in head
    assert "chainwatch retry run-a" in content


def test_a_reminder_answers_the_alert_that_it_is_about(tmp_path: Path) -> None:
    channel = mail(tmp_path, KEEP)
    channel.tell([message()], "s", START)
    first = (tmp_path / "mail").read_text()
    channel.tell([replace(message(), tone=Tone.REMINDER, times=1)], "s", START + timedelta(hours=4))
    thread = next(line.split(" ", 1)[1] for line in first.splitlines() if line.startswith("Message-ID"))
    assert f"In-Reply-To: {thread}" in (tmp_path / "mail").read_text()


@pytest.mark.parametrize(
    ("script", "said"),
    [("sys.exit('queue is full')", "queue is full"), ("time.sleep(30)", "did not end within 1 s")],
)
def test_a_sendmail_that_fails_or_hangs_is_tried_again(tmp_path: Path, script: str, said: str) -> None:
    answer = mail(tmp_path, script, deadline="1s").tell([message()], "s", START)
    assert isinstance(answer, TryLater)
    assert said in answer.why
    missing = mail(tmp_path, "", sendmail=str(tmp_path / "none")).tell([message()], "s", START)
    assert isinstance(missing, TryLater)
    assert "smtp:" in missing.why


class Smtp(threading.Thread):
    """A mail server for one connection that answers from a table."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answers = answers
        self.data = b""
        self.start()

    def run(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rwb") as stream:

            def say(text: str) -> None:
                stream.write(text.encode() + b"\r\n")
                stream.flush()

            say("220 test")
            while line := stream.readline():
                word = line[:4].decode().strip().upper()
                say(self.answers.get(word, "354 go" if word == "DATA" else "250 ok"))
                if word == "DATA" and "DATA" not in self.answers:
                    while (part := stream.readline()) not in (b".\r\n", b""):
                        self.data += part
                    say(self.answers.get(".", "250 taken"))
                if word == "QUIT":
                    return

    def close(self) -> None:
        self.listener.close()
        self.join(5)


def smtp(answers: dict[str, str], **settings: Any) -> tuple[Any, bytes]:
    server = Smtp(answers)
    full = {"type": "email", "to": "a@example.org", "smtp": f"127.0.0.1:{server.port}", "tls": "none", **settings}
    channel = build_all(Alerts.model_validate({"channels": {"mail": full}}).channels)["mail"]
    answer = channel.tell([message()], "run-a needs a person", START)
    server.close()
    return answer, server.data


def test_smtp_delivers() -> None:
    answer, data = smtp({})
    assert answer == Told()
    assert b"chainwatch retry run-a" in data


@pytest.mark.parametrize(
    ("answers", "settings", "said"),
    [
        ({"RCPT": "550 no such user"}, {}, "accepts none of the addresses"),
        ({".": "451 try again"}, {}, "refused the mail: 451"),
        ({".": "554 spam"}, {}, "refused the mail: 554"),
        ({}, {"tls": "starttls"}, "STARTTLS"),
        ({"EHLO": "500 no", "HELO": "500 no"}, {}, "SMTPHeloError"),
    ],
)
def test_smtp_troubles_are_said_in_a_sentence(answers: dict[str, str], settings: dict[str, Any], said: str) -> None:
    answer, _ = smtp(answers, **settings)
    assert said in answer.why


def test_without_the_extra_apprise_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    channel = build_all(Alerts.model_validate({"channels": {"x": {"type": "apprise", "url_env": "U"}}}).channels)["x"]
    answer = channel.tell([message()], "s", START)
    assert isinstance(answer, TryLater)
    assert "chainwatch[apprise]" in answer.why


def test_apprise_tells_its_services(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("apprise")
    (tmp_path / "urls").write_text(f"json://127.0.0.1:{server.port}/one\n")
    (tmp_path / "urls").chmod(0o600)
    settings = {"type": "apprise", "url_file": str(tmp_path / "urls")}
    channel = build_all(Alerts.model_validate({"channels": {"x": settings}}).channels)["x"]
    assert channel.tell([evil()], EVIL, START) == Told()
    assert "chainwatch retry x" in server.documents[0]["message"]
    assert "@channel" not in json.dumps(server.documents[0], ensure_ascii=False)
    server.script = [{"status": 500}]
    assert isinstance(channel.tell([message()], "s", START), TryLater)


def test_the_heartbeat_beats_while_polls_see_and_is_withheld_when_they_are_blind(
    server: Server, tmp_path: Path
) -> None:
    url = tmp_path / "url"
    url.write_text(server.url)
    url.chmod(0o600)
    heart = HeartbeatSender(Heartbeat.model_validate({"url_file": str(url), "every": "5m"}))
    now = START
    assert heart.beat(now, sees=False) is None
    assert heart.beat(now, sees=True) == Told()
    assert heart.beat(now + timedelta(minutes=4), sees=True) is None
    server.script = [{"status": 500}]
    assert isinstance(heart.beat(now + timedelta(minutes=5), sees=True), TryLater)
    assert heart.beat(now + timedelta(minutes=6), sees=True) == Told(), "a failed beat is tried again soon"
    assert [r[0] for r in server.requests] == ["GET"] * 3


def test_a_site_that_names_hosts_closes_channels_that_lead_elsewhere(tmp_path: Path) -> None:
    settings = Alerts.model_validate(
        {
            "channels": {
                "far": {"type": "email", "to": "a@example.org", "smtp": "mail.example.net:587"},
                "near": {"type": "email", "to": "a@example.org", "smtp": "mail.example.org"},
                "own": {"type": "email", "to": "a@example.org", "sendmail": "/bin/true"},
                "any": {"type": "apprise", "url_file": str(tmp_path / "u")},
            }
        }
    )
    built = build_all(settings.channels, ("*.example.org",))
    closed = {name: built[name].tell([message()], "x", START) for name in ("far", "any")}
    assert all(isinstance(answer, TryLater) and "does not allow" in answer.why for answer in closed.values())
    assert {type(built[name]).__name__ for name in ("near", "own")} == {"MailChannel"}
    assert type(build_all(settings.channels)["far"]).__name__ == "MailChannel"
