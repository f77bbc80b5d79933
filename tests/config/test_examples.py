"""Every configuration that people are shown is right, and means what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from chainwatch.config import Config, load, schema
from chainwatch.supervisor.rules import RULES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "configs").glob("*.yaml"))


def as_an_editor_reads(path: Path) -> object:
    """YAML 1.2, which knows no dates."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.construct_yaml_str)
    return yaml.load(path.read_text(), Loader)  # noqa: S506 - a safe loader


def example(name: str) -> Config:
    return load(ROOT / "configs" / f"{name}.yaml", RULES).config


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_taken_by_check_and_by_editors(path: Path) -> None:
    loaded = load(path, RULES).config
    assert loaded.chains
    assert all(chain.checkpoints and chain.done.configured for chain in loaded.chains.values())
    jsonschema.Draft202012Validator(schema()).validate(as_an_editor_reads(path))


def test_there_is_an_example_for_each_framework() -> None:
    wanted = {"minimal", "deepspeed", "hf-trainer", "megatron", "lightning", "torchtitan", "accelerate", "custom"}
    assert wanted <= {path.stem for path in EXAMPLES}


def test_the_sweeps_make_the_chains_that_they_promise() -> None:
    sweep = example("accelerate").chains
    assert len(sweep) == 6
    assert sweep["sweep-lr3e-5-s2"].args[:4] == ("--learning_rate", "3e-5", "--seed", "2")
    table = example("table").chains
    assert {name: chain.done.step for name, chain in table.items()} == {
        "base": 100000, "base-slow": 150000, "code": 80000,
    }  # fmt: skip


def test_what_is_commented_out_in_an_example_is_right_too(tmp_path: Path) -> None:
    text = (ROOT / "configs" / "deepspeed.yaml").read_text()
    keys = "alerts|channels|team|type|url_file|severity|resubmitter|sbatch|file|outputs"
    switched = re.sub(rf"^( *)# ( *(?:{keys}):.*)$", r"\1\2", text, flags=re.M)
    switched = switched.replace("\n  resubmitter: none\n", "\n").replace("file: output/done.json        #", "file: x #")
    path = tmp_path / "c.yaml"
    path.write_text(switched)
    chain = load(path, RULES).config.chains["pretrain-7b"]
    assert load(path).config.alerts.channels
    assert (chain.resubmitter.by, chain.recovery.sbatch) == ("site", ("--nice=100",))
    assert chain.done.file is not None


def test_examples_in_the_reference_and_in_the_readme_are_right(tmp_path: Path) -> None:
    from dev.configuration import page

    blocks = [
        block
        for text in (page(), (ROOT / "README.md").read_text())
        for block in re.findall(r"```yaml\n(.*?)```", text, re.S)
    ]
    assert len(blocks) >= 2
    for block in blocks:
        (tmp_path / "c.yaml").write_text(block)
        assert load(tmp_path / "c.yaml", RULES).config.chains
