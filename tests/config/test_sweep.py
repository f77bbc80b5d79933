from __future__ import annotations

import pytest

from tests.config.writing import Desk


def test_a_matrix_makes_one_chain_of_every_combination(desk: Desk) -> None:
    chains = desk.load(
        """
        defaults: {batch: 'train_{size}.sh'}
        chains:
          sweep-{size}-lr{lr}-s{seed}:
            args: [--lr, '{lr}', '--seed={seed}']
            checkpoints: {directory: 'runs/{size}/{lr}-{seed}'}
            done: {step: '{seed}000'}
            each:
              matrix:
                size: [7b]
                lr: [1e-4, 0.10]
                seed: [1, 2]
        """
    ).chains
    assert list(chains) == [
        "sweep-7b-lr1e-4-s1", "sweep-7b-lr1e-4-s2", "sweep-7b-lr0.10-s1", "sweep-7b-lr0.10-s2",
    ]  # fmt: skip
    last = chains["sweep-7b-lr0.10-s2"]
    assert last.args == ("--lr", "0.10", "--seed=2"), "values are taken as they are written"
    assert last.batch.name == "train_7b.sh"
    assert last.checkpoints is not None
    assert last.checkpoints.directory == desk.folder / "runs/7b/0.10-2"
    assert last.done.step == 2000


def test_a_table_makes_one_chain_a_row(desk: Desk) -> None:
    desk.write('name, lr ,"note"\nsmall,1e-3,"a, b\nc"\nbig , 1e-4,\n', "runs.csv")
    chains = desk.load(
        "chains:\n  'fit-{name}':\n    batch: x.sh\n    args: --lr {lr}\n    each: {csv: runs.csv}\n"
    ).chains
    assert {name: chain.args for name, chain in chains.items()} == {
        "fit-small": ("--lr", "1e-3"),
        "fit-big": ("--lr", "1e-4"),
    }


def test_a_name_without_a_placeholder_gets_the_values_appended(desk: Desk) -> None:
    text = "chains: {run: {batch: x, args: ['{lr}', '{d}'], each: {matrix: {lr: [0.1], d: ['a/b', c]}}}}"
    assert list(desk.load(text).chains) == ["run-0.1-a_b", "run-0.1-c"]
    assert list(desk.load("chains: {run: {batch: x, args: '{lr}', each: {matrix: {lr: [0.1]}}}}").chains) == ["run"]


def test_values_are_made_safe_in_a_name_and_stay_as_they_are_elsewhere(desk: Desk) -> None:
    chains = desk.load("chains: {'run-{d}': {batch: x, args: ['{d}'], each: {matrix: {d: ['a/b c']}}}}").chains
    assert chains["run-a_b_c"].args == ("a/b c",)


def test_braces_that_are_no_column_stay(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("seed", "/home")
    chain = desk.load(
        """
        chains:
          run-{seed}:
            batch: x
            sbatch: [--no-requeue]
            args: ['${seed}', '{other}', '{path}']
            checkpoints: {directory: '${seed}/ck', hand_over: argument, argument: '--from={path}@{step}'}
            each: {matrix: {seed: [5]}}
        """
    ).chains["run-5"]
    assert chain.args == ("${seed}", "{other}", "{path}")
    assert chain.checkpoints is not None
    assert str(chain.checkpoints.directory) == "/home/ck"
    assert chain.checkpoints.argument == "--from={path}@{step}"


@pytest.mark.parametrize(
    ("each", "said"),
    [
        ("{matrix: {seed: [1], lr: [2]}}", "`{lr}` is used nowhere in the chain, so equal runs would start"),
        ("{matrix: {seeds: [1, 2]}}", "`{seed}` is not in `each`; did you mean `{seeds}`?"),
        ("{matrix: {seed: [1, 1]}}", "the name run-1 is made twice"),
        ("{matrix: {seed: ['a b', a_b]}}", "the name run-a_b is made twice"),
        ("{matrix: {seed: []}}", "a list of plain values, is expected"),
        ("{matrix: {seed: 1}}", "a list of plain values, is expected"),
        ("{matrix: {seed: [[1]]}}", "a list of plain values, is expected"),
        ("{matrix: {'a b': [1]}}", "a name of letters, digits and `_`"),
        ("{matrix: {}}", "a list of values for each name is expected"),
        ("{matrix: [1]}", "a list of values for each name is expected"),
        ("{matrix: {seed: [1]}, csv: x.csv}", "either `matrix:`"),
        ("{rows: 1}", "either `matrix:`"),
        ("[1]", "either `matrix:`"),
        ("{csv: missing.csv}", "missing.csv cannot be read: No such file or directory"),
        ("{csv: $NO_SUCH_VARIABLE/x.csv}", "NO_SUCH_VARIABLE is not set"),
        ("{csv: [x]}", "cannot be read"),
        ("{csv: empty.csv}", "has no rows below its header"),
        ("{csv: head.csv}", "has no rows below its header"),
        ("{csv: short.csv}", "short.csv:3: this row has fewer fields than the header"),
        ("{csv: long.csv}", "long.csv:2: this row has more fields than the header"),
        ("{csv: twice.csv}", "a column is there twice"),
        ("{csv: blank.csv}", "the column 'a b' cannot stand in braces"),
        ("{csv: latin.csv}", "is not UTF-8"),
        ("{csv: other.csv}", "`{a}`, `{b}` is used nowhere in the chain"),
    ],
)
def test_a_sweep_that_cannot_be_meant_is_refused(desk: Desk, each: str, said: str) -> None:
    desk.write("", "empty.csv")
    desk.write("seed\n", "head.csv")
    desk.write("seed,b\n1,2\n3\n", "short.csv")
    desk.write("seed\n1,2\n", "long.csv")
    desk.write("seed,seed\n1,2\n", "twice.csv")
    desk.write("seed,a b\n1,2\n", "blank.csv")
    desk.write("a,b\n1,2\n", "other.csv")
    (desk.folder / "latin.csv").write_bytes("seed\nä\n".encode("latin-1"))
    name = "run" if "other" in each else "run-{seed}"
    problems = desk.problems(f"chains:\n  {name}:\n    batch: x\n    each: {each}\n")
    assert any(said in problem for problem in problems), problems


def test_a_misspelt_placeholder_is_found_where_it_stands(desk: Desk) -> None:
    text = (
        "chains:\n  run-{seed}:\n    batch: x\n    args:\n      - '{lrr}'\n    each: {matrix: {seed: [1], lrr2: [1]}}\n"
    )
    problems = desk.problems(text)
    assert problems[0] == "5: chains.run-{seed}.args.0: `{lrr}` is not in `each`; did you mean `{lrr2}`?"


def test_a_sweep_of_far_too_many_chains_is_refused_in_a_moment(desk: Desk) -> None:
    numbers = [*range(1000)]
    each = f"{{matrix: {{a: {numbers}, b: {numbers}, c: {numbers}}}}}"
    [problem] = desk.problems(f"chains:\n  'r-{{a}}-{{b}}-{{c}}':\n    batch: x\n    each: {each}\n")
    assert "makes more than 10000 chains" in problem


def test_a_mistake_in_a_sweep_is_said_once(desk: Desk) -> None:
    text = "chains:\n  r-{a}:\n    batch: x\n    mode: akt\n    each: {matrix: {a: [1, 2, 3]}}\n"
    assert len(desk.problems(text)) == 1
