"""Names, columns, times and bytes: whatever stands in them, the chain beside them is looked after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest

from chainwatch.simulation import TrainingFault, Trouble
from tests.bugs.catalogue import plays
from tests.bugs.clients import Row, says
from tests.bugs.play import ChainPlan, ChainState, Play

Stage = Callable[..., Play]
CRASHES = ChainPlan(faults=(TrainingFault(Trouble.NETWORK, step=1500, times=1),))
LATIN = b"f\xfcr dich".decode("utf-8", "surrogateescape")
MERGED = "1 COMPLETININVALID ada train\n"


def comes_through(on: Play) -> None:
    """A failure is seen, the chain goes on from its newest intact checkpoint, and comes to its end."""
    on.finishes()
    assert len(on.submitted()) == 2
    assert on.never_bad()


@plays("aiidateam/aiida-core#7554", "PySlurm/pyslurm#33", "PySlurm/pyslurm#71")
def test_other_jobs_of_the_user_may_be_called_anything(play: Stage) -> None:
    names = ["test^^^run", "crazy|name", "two\nlines", "a\x1fb\x1ec", "dédé job", LATIN, "", "'\"\\n %s"]
    called = cycle(names)
    on = play(CRASHES)
    on.cluster.occupy(1, 20_000, user="ada")
    on.clients.edits["squeue"] = lambda row: row | ({} if row["Name"] == "run0" else {"Name": next(called)})
    comes_through(on)
    assert len(on.clients.lines("squeue")) > len(names)


@plays("aiidateam/aiida-core#7554", "PySlurm/pyslurm#33", "PySlurm/pyslurm#71")
@pytest.mark.parametrize("name", ["test^^^run | a\nb\x1f", LATIN], ids=["separators", "latin-1"])
def test_the_chains_own_job_may_be_called_anything(play: Stage, name: str) -> None:
    on = play(CRASHES)

    def edit(row: Row) -> Row:
        key = "Name" if "Name" in row else "JobName"
        return row | ({key: name} if row.get("JobIDRaw", row.get("JobID", "")).isdigit() else {})

    on.clients.edits = {"squeue": edit, "sacct": edit}
    comes_through(on)
    assert on.attempts()[0].job.name == name


@plays("ufs-community/ufs-weather-model#2379")
def test_no_column_has_a_width(play: Stage) -> None:
    on = play(CRASHES, completing=70.0)
    long = "x" * 300
    on.clients.edits["squeue"] = lambda row: row | {"TimeLimit": "INVALID", "Account": long, "QOS": long}
    comes_through(on)
    for call in on.clients.lines("squeue"):
        columns = next(word for word in call if word.startswith("--Format=")).removeprefix("--Format=").split(",")
        assert all(":" in column and not column.partition(":")[2][0].isdigit() for column in columns)


@plays("ufs-community/ufs-weather-model#2379", "glotzerlab/signac-flow#13")
@pytest.mark.parametrize("printed", [MERGED, '"R  train"\n', "JOBID STATE\n" + MERGED])
def test_lines_that_are_not_what_was_asked_for_are_no_answer(play: Stage, printed: str) -> None:
    on = play()
    on.running()
    on.clients.instead["squeue"] = says(printed)
    on.go(900)
    assert on.is_(ChainState.RUNNING)
    on.clients.instead.clear()
    on.finishes()
    assert len(on.submitted()) == 1


@plays("glotzerlab/signac-flow#13")
def test_no_argument_carries_quotes_for_a_shell(play: Stage) -> None:
    on = play(CRASHES)
    comes_through(on)
    assert not any(mark in word for call in on.clients.calls for word in call for mark in "\"'")


@plays("aiidateam/aiida-core#3415")
def test_a_time_limit_may_be_any_word(play: Stage) -> None:
    """Each answer has another one of them."""
    words = ["UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", "N/A", "2-12:00:00", "12:00:00", "30:00", "30", ""]
    queue, records = cycle(words), cycle(words)
    on = play(CRASHES)
    on.clients.edits["squeue"] = lambda row: row | {"TimeLimit": next(queue)}
    on.clients.edits["sacct"] = lambda row: row | {"TimelimitRaw": next(records)}
    comes_through(on)
    assert len(on.clients.lines("squeue")) > len(words)
