"""Whatever file a person names: a FIFO, a device or a folder there is refused at once, never waited for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.config import ConfigError, load
from chainwatch.config.secrets import SecretUnusable, read_secret
from chainwatch.config.site import SiteError, load_site, pause_reason
from chainwatch.model.plain_file import read_plain, text_of
from chainwatch.signatures import SignatureError, user_signatures
from chainwatch.supervisor.house import on_disk


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo.yaml"
    os.mkfifo(path, 0o600)
    return path


def _table(path: Path) -> object:
    config = path.with_name("c.yml")
    config.write_text("chains: {a: {batch: b.sh, each: {csv: fifo.yaml}}}\n")
    return load(config)


READERS: dict[str, Callable[[Path], object]] = {
    "configuration": load,
    "configurations of a directory": lambda path: load(path.parent),
    "table": _table,
    "site's limits": load_site,
    "secret": lambda path: read_secret(path, None, "the url"),
    "signatures": user_signatures,
    "batch script of a chain": lambda path: on_disk(str(path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_fifo_is_refused_and_not_waited_for(reader: str, fifo: Path) -> None:
    with pytest.raises((ConfigError, SiteError, SecretUnusable, SignatureError, OSError), match="no regular file"):
        READERS[reader](fifo)


def test_a_pause_file_that_is_a_fifo_pauses(fifo: Path) -> None:
    assert "no regular file" in pause_reason(fifo)


@pytest.mark.parametrize(
    ("command", "code"),
    [("check", 2), ("lint", 2), ("init", 2), ("run", 2), ("sbatch", 1), ("verify . --rule", 2)],
)
@pytest.mark.parametrize("what", ["fifo", "/dev/zero", "/dev/null"])
def test_a_command_says_that_it_is_no_regular_file(
    command: str, code: int, what: str, fifo: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(fifo.parent)
    monkeypatch.setenv("CHAINWATCH_STATE", str(fifo.parent / "state"))
    begun = time.process_time()
    assert main([*command.split(), str(fifo) if what == "fifo" else what]) == code
    assert re.search("no regular file", capfd.readouterr().err)
    assert time.process_time() - begun < 10


def test_a_file_that_is_larger_than_any_text_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "script.sh"
    path.write_bytes(b"#!/bin/sh\r\n")
    assert read_plain(path, 20) == b"#!/bin/sh\r\n"
    assert text_of(path) == "#!/bin/sh\n"
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="more than 16 MiB"):
        text_of(path)
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path)
