"""One state directory belongs to one configuration: a second one on it loses no chain of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainwatch.cli.__main__ import main
from chainwatch.config.models import Chain
from chainwatch.store.records import CONFIGURATION
from tests.supervisor.play import Play


class Two:
    """Daemons that are started with one file or the other, on one state."""

    def __init__(self, play: Play, folder: Path) -> None:
        self.play, self.a, self.b = play, folder / "a.yaml", folder / "b.yaml"
        self.warned: list[str] = []
        self.a.touch()
        self.b.touch()

    def run(self, path: Path, chains: dict[str, Chain]) -> None:
        """A daemon is started with that configuration, and makes a few passes."""
        self.play.chains = chains
        self.play.start()
        self.play.house.source, self.play.house.warn = str(path), self.warned.append
        self.play.passes(3)


@pytest.fixture
def two(play: Play, tmp_path: Path) -> Two:
    two = Two(play, tmp_path)
    play.house.source = str(two.a)
    play.chain("one")
    play.chain("both")
    play.submit("one")
    return two


def mine(play: Play, *names: str) -> dict[str, Chain]:
    return {name: chain for name, chain in play.chains.items() if name in names}


def test_chains_of_another_configuration_are_looked_after_and_one_line_names_both(two: Two) -> None:
    """The kind: a file that says nothing of a chain is taken for a wish that nobody had."""
    play = two.play
    [job] = play.live("one")
    two.run(two.b, mine(play, "both"))
    assert not play.record("one").released
    [said] = two.warned
    assert said.startswith(f"this state has chains of another configuration, {two.a}; the daemon's is {two.b}; one: ")
    play.lab.cluster.preempt(job.job_id)
    play.until(lambda: len(play.store.attempts("one")) == 2)
    assert len(two.warned) == 1, "once a start, not once a pass"


def test_a_chain_that_both_name_with_other_settings_is_said_to_be_taken_over(two: Two) -> None:
    changed = two.play.chains["both"].model_copy(update={"args": ("--lr", "1")})
    two.run(two.b, {"both": changed, "one": two.play.chains["one"]})
    [said] = two.warned
    assert f"both: in both, and by now as {two.b} says" in said
    assert two.play.record("both").configuration == str(two.b)
    assert two.play.record("one").configuration == str(two.b)


def test_a_configuration_that_was_moved_is_no_other_one_and_lets_go_what_it_no_longer_names(two: Two) -> None:
    two.a.unlink()
    two.run(two.b, mine(two.play, "both"))
    assert two.play.record("one").released
    assert two.warned == []


def test_the_same_configuration_lets_go_as_ever(two: Two) -> None:
    two.run(two.a, mine(two.play, "both"))
    assert two.play.record("one").released
    assert two.warned == []


def test_status_tells_which_configuration_a_state_has_and_which_chains_are_of_another(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    two.run(two.b, mine(two.play, "both"))
    assert two.play.store.recall(CONFIGURATION) == str(two.b)
    assert main(["status", "--state", str(two.play.root / "state")]) == 0
    out, err = capsys.readouterr()
    assert f"this state's configuration is {two.b}" in err
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "(other configuration)" in lines["one"]
    assert "(other configuration)" not in lines["both"]
