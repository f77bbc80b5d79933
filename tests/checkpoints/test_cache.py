"""A finding is kept exactly as long as the file is the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chainwatch.checkpoints import Status, verify
from chainwatch.checkpoints.cache import FindingCache

RUN = "good/deepspeed/zero2_fp32_w3"


def test_a_second_look_opens_no_file(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FindingCache(settled=0)
    first = verify(str(cases / RUN), examine_file=cache)
    looked_at = cache.misses
    assert looked_at == 8
    second = verify(str(cases / RUN), examine_file=cache)
    assert second == first
    assert (cache.misses, cache.hits) == (looked_at, looked_at)


def test_a_changed_file_is_read_again(cases: Path, tmp_path: Path) -> None:
    data = (cases / RUN / "global_step30" / "mp_rank_00_model_states.pt").read_bytes()
    path = tmp_path / "ckpt_30.pt"
    path.write_bytes(data)
    os.utime(path, (1e9, 1e9))
    cache = FindingCache()
    assert time.time() - path.stat().st_ctime < 3, "ctime is now, so nothing may be kept yet"
    assert verify(str(path), examine_file=cache).checkpoints[0].intact
    assert len(cache) == 0
    path.write_bytes(data[:-1])
    assert not verify(str(path), examine_file=cache).checkpoints[0].intact


def test_a_quick_finding_does_not_answer_a_deep_question(cases: Path) -> None:
    run = cases / "bad/deepspeed/bitflip/run"
    cache = FindingCache(settled=0)
    assert verify(str(run), examine_file=cache).checkpoints[0].status is Status.INTACT
    assert verify(str(run), deep=True, examine_file=cache).checkpoints[0].status is Status.DAMAGED
    assert verify(str(run), examine_file=cache).checkpoints[0].status is Status.DAMAGED, (
        "what deep found is not forgotten"
    )


def test_it_survives_in_a_file(cases: Path, tmp_path: Path) -> None:
    cache = FindingCache(settled=0)
    first = verify(str(cases / RUN), examine_file=cache)
    cache.save(str(tmp_path / "cache.json"))
    other = FindingCache(settled=0)
    assert other.load(str(tmp_path / "cache.json"))
    assert verify(str(cases / RUN), examine_file=other) == first
    assert (other.misses, other.hits) == (0, 8)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1, "files": [[1]]}', '{"version": 99, "files": []}', "[" * 9999]
)
def test_a_broken_cache_file_is_no_cache(text: str, tmp_path: Path) -> None:
    (tmp_path / "cache.json").write_text(text)
    cache = FindingCache(settled=0)
    assert not cache.load(str(tmp_path / "cache.json"))
    assert len(cache) == 0


def test_it_forgets_the_oldest(cases: Path) -> None:
    cache = FindingCache(limit=3, settled=0)
    verify(str(cases / RUN), examine_file=cache)
    assert len(cache) == 3
