"""Which logs of an attempt are read."""

from __future__ import annotations

from pathlib import Path

from chainwatch.config.models import Chain
from chainwatch.supervisor.readers import Place
from chainwatch.supervisor.reading import log_files
from tests.supervisor.jobs import queued


def test_more_logs_may_be_named_by_paths_globs_and_the_patterns_of_slurm(tmp_path: Path) -> None:
    """The kind: globs were promised and taken literally, so that a launcher's own logs were never read."""
    folder = tmp_path / "100%j [a]"
    (folder / "logs").mkdir(parents=True)
    job = queued(job_id=52, name="run*", stdout=str(folder / "out.log"))
    names = [
        "52_0_log.err",
        "52_0_log.out",
        "520_0_log.out",
        "run*-52-3.log",
        "runs-52-3.log",
        "part[1].log",
        "part1.log",
    ]
    for name in names:
        (folder / "logs" / name).touch()

    def found(*patterns: str) -> list[str]:
        settings = Chain.model_validate({"batch": "/x.sh", "logs": {"files": list(patterns)}})
        return [Path(path).name for path in log_files(Place("run", settings, str(folder)), job)]

    assert found() == ["out.log"]
    assert found("logs/%j_0_log.*") == ["out.log", *names[:2]]
    assert found("logs/%x-%j-%t.log") == ["out.log", names[3]]
    assert found("logs/part[1].log") == ["out.log", "part[1].log", "part1.log"]
    assert found("**/%j_?_log.err", "logs/52_0_log.err") == ["out.log", names[0]]
