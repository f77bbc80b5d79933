"""Tables of many chains on narrow terminals: a row is a line."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from chainwatch.cli.tables import fitted, short
from chainwatch.model.chain import ChainState, Mode
from chainwatch.store import open_store
from chainwatch.store.records import ChainRecord, Origin
from tests.store.build import NOW

WHY = (
    "resubmits: Job 4711 ended: a checkpoint cannot be loaded (FAILED 1:0): RuntimeError: PytorchStreamReader failed "
    "reading zip archive: failed finding central directory; resumes from /scratch/ada/runs/llama/global_step3000"
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty chains, each with a long story."""
    where = tmp_path_factory.mktemp("state") / "state"
    store = open_store(where)
    states = [ChainState.RUNNING, ChainState.WAITING, ChainState.STOPPED]
    with store.transaction():
        for number in range(60):
            name = f"llama-7b-lr{number}e-4-warm"
            store.add_chain(
                ChainRecord(
                    name, "alpha", Origin.SBATCH, Mode.OBSERVE if number % 7 == 0 else Mode.ACT, {"batch": "/x.sh"}, NOW,
                    state=states[number % 3], state_since=NOW, sentence=WHY, step=4_000_000 + number, saved_step=3_999_000,
                    target=10_000_000, facts={"rate": 0.5},
                )
            )  # fmt: skip
    store.close()
    return where


def on_a_terminal(width: int, *words: str) -> list[str]:
    """What that command writes to a terminal of this width, line by line, colours taken away."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "NO_COLOR"}} | {"TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "chainwatch.cli", *words], stdout=slave, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(slave)
    said = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        said += more
    os.close(master)
    assert process.wait(60) == 0
    return said.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_each_chain_is_one_line_of_the_terminal_with_its_name_state_and_step(state: Path, width: int) -> None:
    lines = on_a_terminal(width, "status", "--state", str(state))
    assert len(lines) == 61
    assert all(len(line.rstrip()) <= width for line in lines)
    assert all(
        line.startswith("llama-7b-lr") and "/10000000" in line and "resubmits: Job" in line for line in lines[1:]
    )
    assert ("saved" in lines[0]) == (width == 120)


def test_a_pipe_has_every_column_and_the_first_clause_of_each_sentence(state: Path) -> None:
    ask = [sys.executable, "-m", "chainwatch.cli", "status", "--state", str(state)]
    lines = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert " ".join(lines[0].split()) == "chain state since job step saved at risk left attempts last end now"
    assert all(len(line) < 200 for line in lines)
    assert all(line.endswith("…") for line in lines[1:])


def test_a_sentence_is_cut_after_its_first_clause_and_to_a_length() -> None:
    assert short("waits until 12:00; then resubmits") == "waits until 12:00"
    assert short("job 7 is\n running") == "job 7 is running"
    assert len(short(WHY)) <= 60


def test_columns_give_way_in_their_order_and_the_last_one_is_cut_last() -> None:
    head, row = ["name", "a", "b", "why"], ["x" * 20, "1" * 10, "2" * 10, "word " * 20]
    assert fitted(head, [row], 200)[0] == head
    columns, [cells] = fitted(head, [row], 60, ["b", "a"])
    assert (columns, len(cells[-1]), cells[-1][-1]) == (["name", "a", "why"], 26, "…")
    assert fitted(head, [row], 20, ["b", "a"])[0] == ["name", "why"]


@pytest.mark.parametrize("width", [80, 40, 20])
def test_one_long_name_is_folded_and_takes_no_other_row_its_last_column(width: int) -> None:
    names = ["sweep-" + "lr0.0001-" * 9, "toy"]
    rows = [[name, "running (observe)", "120/600", WHY] for name in names]
    columns, cells = fitted(["chain", "state", "step", "now"], rows, width)
    assert [row[0].replace("\n", "") for row in cells] == names, "a name is copied from there: none of it is lost"
    widest = [max(len(line) for row in cells for line in row[i].splitlines()) for i in range(len(columns))]
    assert sum(widest) + 2 * (len(widest) - 1) <= width
    assert len(cells[1][-1]) > (20 if width == 80 else 0)
    assert fitted(["chain", "now"], [["x" * 70, "y"]], 80)[1] == [["x" * 70, "y"]], "what fits is left alone"


@pytest.mark.parametrize("width", [40, 20])
def test_a_very_narrow_terminal_shows_the_names(state: Path, width: int) -> None:
    lines = on_a_terminal(width, "status", "--state", str(state))
    assert all(len(line.rstrip()) <= width for line in lines)
    assert sum(line.startswith("llama-7b") for line in lines) == 60
