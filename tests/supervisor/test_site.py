"""The site's word holds for every chain, also for those that commands stored and no configuration names."""

from __future__ import annotations

from typing import Any

import pytest

from chainwatch.config.models import Chain
from chainwatch.config.site import Site
from chainwatch.model.chain import ChainState, Mode
from chainwatch.model.checkpoint import RunReport
from chainwatch.simulation import batch
from chainwatch.store.records import ChainRecord, Origin
from tests.supervisor.play import Play


def by_command(play: Play, **settings: Any) -> ChainRecord:
    """A chain that `chainwatch sbatch` registered, in mode act."""
    script = play.lab.script(batch(None), path="/home/ada/run.sh")
    given = {"batch": script, "directory": "/home/ada", "sbatch": ["--job-name=run"], **settings}
    chain = Chain.model_validate(given).model_dump(mode="json")
    now = play.clock.now()
    record = ChainRecord("run", play.backend.name, Origin.SBATCH, Mode.ACT, chain, now, state_since=now)
    play.store.add_chain(record)
    return record


@pytest.mark.parametrize(
    ("forbid", "settings", "acts"),
    [
        (["act"], {}, False),
        (["set_aside"], {"checkpoints": {"directory": "/c", "hand_over": "set_aside"}}, False),
        (["pointer"], {"checkpoints": {"directory": "/c", "hand_over": "set_aside"}}, True),
        (["tcp", "buttons", "alerts", "end_hung_jobs"], {}, True),
    ],
)
def test_what_the_site_forbids_is_not_done_for_a_chain_of_a_command(
    play: Play, forbid: list[str], settings: dict[str, Any], acts: bool
) -> None:
    play.house.site = Site.model_validate({"forbid": forbid})
    record = by_command(play, **settings)
    assert play.house.may_act(record) is acts
    play.files.report = RunReport("/c", None, (), None)
    play.submit("run")
    assert bool(play.calls("submit")) is acts
    if not acts:
        assert "site" in play.record("run").sentence
        [notice] = play.store.active_notices("run")
        assert "mode run act" not in str(notice.body), "a command that would change nothing is not named"


def test_a_hung_job_is_not_ended_where_the_site_forbids_it(play: Play) -> None:
    play.house.site = Site.model_validate({"forbid": ["end_hung_jobs"]})
    assert not play.house.settings(by_command(play, hang={"end_job": True})).hang.end_job


def test_pause_stops_every_action_and_what_it_held_back_is_done_afterwards(play: Play) -> None:
    play.chain("run", batch(100_000))
    play.submit("run")
    play.house.site_pause = lambda: "maintenance"
    [job] = play.live("run")
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: not play.live("run"))
    play.passes(5)
    assert len(play.calls("submit")) == 1
    assert "the site has paused all actions (maintenance)" in play.record("run").sentence
    assert play.state("run") is ChainState.WAITING
    play.house.site_pause = lambda: ""
    play.until(lambda: len(play.calls("submit")) == 2)
