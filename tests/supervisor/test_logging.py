"""The log as people, programs and the journal read it."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from chainwatch.supervisor.logging import SignOfLife, configure, decisions, to_journal
from tests.web.conftest import NOW, chain


@pytest.fixture(autouse=True)
def reset() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_for_people() -> None:
    out = Terminal()
    assert configure(stream=out) == "human"
    decisions()(
        "resubmitted from step 3000: preempted", chain("run-a"), {"attempt": 7, "exclude": ["n1", "n2"], "x": ""}
    )
    [line] = out.getvalue().splitlines()
    assert line[8:] == "   run-a: resubmitted from step 3000: preempted  (state=running attempt=7 exclude=n1,n2)"


def test_a_pipe_gets_json_with_the_same_facts() -> None:
    out = io.StringIO()
    assert configure(stream=out) == "json"
    decisions()("it ended", chain("run-a"), {"cause": "preemption"})
    line = json.loads(out.getvalue())
    assert list(line)[:3] == ["time", "level", "event"]
    assert (line["event"], line["chain"], line["cause"]) == ("it ended", "run-a", "preemption")


@pytest.mark.parametrize("style", ["human", "json"])
def test_no_secret_and_no_escape_reaches_the_log(style: str) -> None:
    out = io.StringIO()
    configure(stream=out, style=style)  # type: ignore[arg-type]
    log = structlog.get_logger()
    url = "https://hooks.slack.com/services/T0/B0/verysecret"
    log.info(
        "posting to " + url, api_key="verysecret", env={"HF_TOKEN": "verysecret"}, line="\x1b[31mred\nTOKEN=verysecret"
    )
    try:
        raise RuntimeError("password=verysecret")
    except RuntimeError:
        log.error("broke", exc_info=True)
    assert "verysecret" not in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "RuntimeError" in out.getvalue()


def test_one_event_is_one_line_whatever_a_name_holds() -> None:
    for style in ("human", "json"):
        out = Terminal()
        configure(stream=out, style=style)  # type: ignore[arg-type]
        structlog.get_logger().info("fine\n12:00:00 forged", chain="x\ny", why="a\u2028b\x0bc")
        assert len(out.getvalue().splitlines()) == 1


def test_the_level_decides_what_is_written() -> None:
    out = Terminal()
    configure("warning", stream=out)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert "quiet" not in out.getvalue()
    assert "! loud" in out.getvalue()


def journal_fields(data: bytes) -> dict[str, str]:
    fields = {}
    while data:
        name, data = data.split(b"\n", 1) if b"=" not in data.split(b"\n", 1)[0] else (data, b"")
        if data:
            size = int.from_bytes(data[:8], "little")
            fields[name.decode()] = data[8 : 8 + size].decode()
            data = data[9 + size :]
        else:
            pair, data = name.split(b"\n", 1)
            key, value = pair.split(b"=", 1)
            fields[key.decode()] = value.decode()
    return fields


def test_the_journal_gets_fields_that_can_be_searched(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald:
        journald.bind(str(path))
        configure(stream=io.StringIO(), style="journal", journal=path)
        decisions()("two\nlines", chain("run-a"), {"cause": "hang", "odd key=": "v"})
        fields = journal_fields(journald.recv(65536))
    assert fields["MESSAGE"] == "run-a: two\nlines"
    assert fields["PRIORITY"] == "6"
    assert fields["CHAINWATCH_CHAIN"] == "run-a"
    assert fields["CHAINWATCH_CAUSE"] == "hang"
    assert fields["CHAINWATCH_ODD_KEY_"] == "v"


def test_without_a_journal_the_line_goes_to_the_stream_with_its_priority(tmp_path: Path) -> None:
    out = io.StringIO()
    configure(stream=out, style="journal", journal=tmp_path / "none")
    structlog.get_logger().error("broke")
    assert out.getvalue() == "<3>broke\n"


def test_the_stream_that_systemd_connected_is_known_by_its_inode(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as out:
        found = os.fstat(out.fileno())
        assert to_journal(out, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
        assert not to_journal(out, {"JOURNAL_STREAM": "1:2"})
    assert not to_journal(io.StringIO(), {"JOURNAL_STREAM": "1:2"})


def test_a_closed_pipe_does_not_stop_the_loop() -> None:
    out = io.StringIO()
    configure(stream=out, style="json")
    out.close()
    structlog.get_logger().info("into the void")


def test_a_quiet_daemon_gives_a_sign_of_life_once_an_hour() -> None:
    out = io.StringIO()
    configure(stream=out, style="json")
    sign = SignOfLife()
    said = [sign.turn(NOW + timedelta(minutes=m), "3 chains, nothing changed") for m in range(181)]
    assert said.count(True) == 3
    assert len(out.getvalue().splitlines()) == 3
    sign.spoke(NOW + timedelta(minutes=230))
    assert not sign.turn(NOW + timedelta(minutes=250), "x")
