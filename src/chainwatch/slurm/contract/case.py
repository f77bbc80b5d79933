"""Cases of the contract: one sentence each, what they need of a stage, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from chainwatch.slurm.contract.stage import Broken, Can, CannotPlay, Stage


@dataclass(frozen=True, slots=True)
class Case:
    """One promise of the Backend protocol, and the play that tests it."""

    name: str
    """Stable, for command lines and test ids."""
    sentence: str
    play: Callable[[Stage], None]
    needs: frozenset[Can] = frozenset()
    slow: bool = False
    """On a real cluster it takes more than about ten seconds."""

    @property
    def read_only(self) -> bool:
        """Nothing is submitted or changed: an administrator may run it against a live cluster."""
        return not self.needs

    def run(self, stage: Stage) -> None:
        """Play it. Raises `Broken` where the promise is not kept, `CannotPlay` where the stage cannot show it."""
        missing = self.needs - stage.can
        if missing:
            raise CannotPlay(f"this stage cannot {', '.join(sorted(missing))}")
        self.play(stage)


_CASES: list[Case] = []


def case(*needs: Can, slow: bool = False) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a function as a case; its docstring is the sentence."""

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        sentence = (play.__doc__ or play.__name__).strip().splitlines()[0]
        _CASES.append(Case(play.__name__, sentence, play, frozenset(needs), slow))
        return play

    return register


def registered() -> tuple[Case, ...]:
    """Every case, in the order in which they were written down."""
    return tuple(_CASES)


class Result(StrEnum):
    """How one case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case on one stage."""

    case: Case
    result: Result
    why: str = ""
    """What broke, or why it could not be played."""


def play(stage: Stage, cases: Iterable[Case]) -> Iterator[Outcome]:
    """Run cases one after the other; no case stops the others, and none is left out silently."""
    for one in cases:
        try:
            one.run(stage)
        except CannotPlay as reason:
            yield Outcome(one, Result.SKIPPED, str(reason))
        except Broken as broken:
            yield Outcome(one, Result.FAILED, str(broken))
        except Exception as error:  # noqa: BLE001 - a backend that raises what it must not is a broken promise
            yield Outcome(one, Result.FAILED, f"{type(error).__name__}: {error}")
        else:
            yield Outcome(one, Result.PASSED)
