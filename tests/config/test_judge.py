"""The kind: what is wrong with one part of a configuration hides what is wrong with another, until it is mended."""

from __future__ import annotations

from chainwatch.config import Config, ConfigError, load
from chainwatch.config.judge import Rule
from chainwatch.supervisor.rules import RULES
from tests.config.writing import Desk

WRONG = "done: {step: three}"
SAID = "done.step: a whole number is expected, not 'three'"


def ruled(desk: Desk, *texts: str, rules: tuple[Rule, ...] = RULES) -> list[str]:
    """What is wrong with these files of one directory, as people read it, without the directory."""
    for number, text in enumerate(texts):
        desk.write(text, f"conf/{number}.yaml")
    try:
        load(desk.folder / "conf", rules)
    except ConfigError as error:
        return [str(p).removeprefix(f"{desk.folder}/conf/") for p in error.problems]
    return []


def test_a_chain_whose_name_is_wrong_is_judged_all_the_same(desk: Desk) -> None:
    said = desk.problems("chains:\n  my run:\n    batch: a.sh\n    done: {step: three}\n    retries: 3\n")
    assert [line.partition(": ")[2] for line in said] == [
        "chains.my run: letters, digits, `.`, `_` and `-` make a chain's name, a letter or digit first, 100 at most; "
        "not 'my run'",
        f"chains.my run.{SAID}",
        "chains.my run.retries: is not a known key here; did you mean `chains.my run.recovery.retries`?",
    ]


def test_chains_of_one_name_are_all_judged_in_one_file_and_in_two(desk: Desk) -> None:
    twice = f"""\
        chains:
          r: {{batch: a.sh, {WRONG}, each: {{matrix: {{x: [1, 2]}}}}, args: "{{x}}"}}
          "r-1": {{batch: a.sh, hang: {{end_job: perhaps}}}}
        """
    said = desk.problems(twice)
    assert any("made twice" in line for line in said)
    assert any(SAID in line for line in said)
    assert any("perhaps" in line for line in said)
    said = ruled(
        desk,
        "chains:\n  a: {batch: a.sh, done: {step: three}}\n",
        "chains:\n  a: {batch: a.sh, done: {step: four}}\n",
    )
    assert said == [
        f"0.yaml:2: chains.a.{SAID}",
        f"1.yaml:2: chains.a: is defined in {desk.folder}/conf/0.yaml:2 too",
        "1.yaml:2: chains.a.done.step: a whole number is expected, not 'four'",
    ]


def test_a_chain_that_a_file_names_twice_is_judged_twice_and_no_name_can_pass_for_one_of_ours(desk: Desk) -> None:
    twice = (
        "chains:\n  a: {batch: a.sh, done: {step: three}}\n  a: {batch: a.sh, retries: 3, each: {matrix: {x: [1]}}}\n"
    )
    assert desk.problems(twice) == [
        "2: chains.a.done.step: a whole number is expected, not 'three'",
        "3: chains.a: is given twice (first in line 2)",
        "3: chains.a.retries: is not a known key here; did you mean `chains.a.recovery.retries`?",
    ]
    assert desk.problems('chains:\n  "a\\0b": {batch: a.sh}\n') == [
        r"2: chains: the key 'a\x00b' holds a NUL character"
    ]


def test_a_sweep_that_cannot_be_made_hides_nothing_and_its_placeholders_are_not_taken_for_values(desk: Desk) -> None:
    said = desk.problems(
        """\
        chains:
          a:
            batch: "{script}"
            each: {csv: none.csv}
            done: {step: "{n}"}
            caps: {attempts: none at all}
        """
    )
    assert len(said) == 2
    assert "none.csv cannot be read" in said[0]
    assert said[1] == "6: chains.a.caps.attempts: a whole number is expected, not 'none at all'"


def test_defaults_are_judged_by_themselves_and_may_leave_to_the_chains_what_is_required(desk: Desk) -> None:
    assert desk.problems("defaults: {recovery: {retries: many}}\n") == [
        "1: defaults.recovery.retries: a whole number is expected, not 'many'"
    ]
    hidden = "defaults: {mode: akt}\nchains:\n  a: {batch: a.sh, mode: act}\n"
    assert len(desk.problems(hidden)) == 1
    whole = """\
        defaults:
          checkpoints: {hand_over: variable}
          done: {step: "{n}"}
          each: {matrix: {n: [1]}}
        chains:
          a: {batch: a.sh, checkpoints: {directory: ckpt}, sbatch: [--no-requeue]}
        """
    assert desk.problems(whole) == []
    assert len(desk.load(whole).chains) == 1


def test_what_only_the_readers_know_is_said_beside_what_the_models_know(desk: Desk) -> None:
    """Also of the very chain that is wrong elsewhere, and of chains whose names are wrong."""
    said = ruled(
        desk,
        """\
        pol: 1m
        chains:
          a: {batch: a.sh, done: {step: three}, logs: {profile: hf_traner}}
          b c: {batch: a.sh, checkpoints: {directory: c, format: deepsped}}
          c: {logs: {profile: hf_traner}}
        """,
    )
    assert [line.partition(": ")[2].partition(": ")[0] for line in said] == [
        "pol", "chains.a.done.step", "chains.a.logs.profile", "chains.b c", "chains.b c.checkpoints.format",
        "chains.c.batch", "chains.c.logs.profile",
    ]  # fmt: skip


def test_parts_of_a_chain_that_do_not_fit_together_are_said_beside_what_is_wrong_elsewhere(desk: Desk) -> None:
    body = "standby: true\ncheckpoints: {directory: c, hand_over: file}\n"
    apart = desk.chain_problems(body + WRONG)
    assert [line.partition(": ")[2].partition(": ")[0] for line in apart] == ["chains.a", f"chains.a.{SAID[:9]}"]
    assert len(desk.chain_problems(body + "resubmitter: {by: nobody}")) == 1, "one of the parts itself is wrong"


def test_no_mistake_is_said_that_follows_from_another_one(desk: Desk) -> None:
    """A channel that is written wrongly is no channel that is missing."""
    channel = "alerts: {channels: {chat: {type: slak, url_file: x}}}\n"
    said = ruled(desk, f"{channel}chains: {{a: {{batch: a.sh, alerts: [chat]}}}}\n")
    assert [line.split(": ")[1] for line in said] == ["alerts.channels.chat"]
    said = ruled(desk, "chains: {a: {batch: a.sh, alerts: [chat]}}\n", "alerts: [\n")
    assert [line.split(":")[0] for line in said] == ["1.yaml"]


def test_rules_see_no_chain_that_cannot_be_made(desk: Desk) -> None:
    seen: list[str] = []

    def rule(config: Config) -> list[tuple[tuple[str, ...], str]]:
        seen.extend(config.chains)
        return []

    assert ruled(desk, "defaults: {mode: act}\nchains: {a: {batch: a.sh}}\n", rules=(rule,)) == []
    assert seen == ["a"]
