from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainwatch.config import Chain, Config, ConfigError, Problem, load
from chainwatch.config.models import HandOver
from chainwatch.model.chain import Mode
from tests.config.writing import Desk


def test_the_smallest_configuration_is_a_script(desk: Desk) -> None:
    chain = desk.load("chains: {a: {batch: train.sh}}").chains["a"]
    assert chain.batch == desk.folder / "train.sh"
    assert chain.directory == desk.folder
    assert chain.mode is Mode.ACT


def test_all_that_is_wrong_is_said_at_once_with_line_key_and_what_was_meant(desk: Desk) -> None:
    assert desk.problems(
        """\
        poll: 30
        stat: /x
        batch: train.sh
        chains:
          a:
            batch: a.sh
            mode: akt
            retries: 3
            done: {step: three}
            recovery:
              nodes: {max_shar: 0.5}
              enabled: maybe
            caps: {until: soon, attempts: 0, gpu_hours: .inf}
          b: {}
        """
    ) == [
        "1: poll: a duration like 30s, 10m, 1h30m or 2d is expected, not 30",
        "2: stat: is not a known key; did you mean `state`?",
        "3: batch: is not a known key here; did you mean `chains.NAME.batch`?",
        "7: chains.a.mode: `observe` or `act` is expected, not 'akt'; did you mean `act`?",
        "8: chains.a.retries: is not a known key here; did you mean `chains.a.recovery.retries`?",
        "9: chains.a.done.step: a whole number is expected, not 'three'",
        "11: chains.a.recovery.nodes.max_shar: is not a known key; did you mean `max_share`?",
        "12: chains.a.recovery.enabled: true or false is expected, not 'maybe'",
        "13: chains.a.caps.attempts: at least 1 is expected, not 0",
        "13: chains.a.caps.gpu_hours: a finite number is expected, not .inf",
        "13: chains.a.caps.until: a moment like 2026-09-01 or 2026-09-01T18:00+02:00 is expected, not 'soon'",
        "14: chains.b.batch: is required",
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("done: {step: 1.5}", "4: chains.a.done.step: a whole number is expected, not 1.5"),
        ("done: [1]", "4: chains.a.done: keys and values are expected, not a list"),
        ("logs: x", "4: chains.a.logs: keys and values are expected, not 'x'"),
        ("logs:\n  files: x", "5: chains.a.logs.files: a list is expected, not 'x'"),
        ("cluster: [a]", "4: chains.a.cluster: a text is expected, not a list"),
        ("cluster: {a: b}", "4: chains.a.cluster: a text is expected, not keys and values"),
        ("checkpoints: {directory: [x]}", "4: chains.a.checkpoints.directory: a path is expected, not a list"),
        ("checkpoints: {format: hf}", "4: chains.a.checkpoints.directory: is required"),
        ("checkpoints: ''", "4: chains.a.checkpoints: a path is expected, not nothing"),
        (
            "resubmitter: sight",
            "4: chains.a.resubmitter: `none`, `site` or `script` is expected, not 'sight'; did you mean `site`?",
        ),
        ("recovery: {nodes: {max_share: 2}}", "4: chains.a.recovery.nodes.max_share: at most 1 is expected, not 2"),
        (
            "sbatch: ['--qos extra']",
            "4: chains.a.sbatch: each option is one word: --qos=extra instead of '--qos extra'",
        ),
        ("args: --x 'y", "4: chains.a.args: the quotes in it do not match (No closing quotation)"),
        (
            "logs: {progress: 'step (\\d+)'}",
            r"4: chains.a.logs.progress: the pattern needs a group that is called step: (?P<step>\d+)",
        ),
        (
            "done: '(?=x)'",
            "4: chains.a.done: keys and values are expected, not '(?=x)'",
        ),
        (
            "done: {mark: '(?=x)'}",
            "4: chains.a.done.mark: '(?=x)' is no pattern in RE2 syntax (invalid perl operator: (?=); "
            "RE2 has no look-around and no back-references",
        ),
        (
            "done: {mark: 'x*'}",
            "4: chains.a.done.mark: 'x*' is met by an empty line; words that the line must have are expected",
        ),
        (
            "logs: {progress: '(?P<step>.+)'}",
            "4: chains.a.logs.progress: '(?P<step>.+)' is met by nearly every line; words that the line must have are "
            "expected",
        ),
        ("zzz: 1", "4: chains.a.zzz: is not a known key; there are mode, batch, args, "),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_is_expected_there(desk: Desk, body: str, said: str) -> None:
    [problem] = desk.chain_problems(body)
    assert problem.startswith(said)


def test_a_mistake_in_defaults_is_said_once_and_where_it_stands(desk: Desk) -> None:
    text = "defaults:\n  batch: x.sh\n  recovery:\n    retrys: 1\nchains: {a: , b: , c: }\n"
    assert desk.problems(text) == ["4: defaults.recovery.retrys: is not a known key; did you mean `retries`?"]


def test_secrets_in_the_wrong_place_are_not_repeated(desk: Desk) -> None:
    said = "\n".join(
        desk.problems(
            """
            database: postgresql://me:hunter2@db/x
            web: {listen: hunter2, token_file: [hunter2]}
            alerts:
              digest: hunter2
              channels:
                a: {type: slack, url: https://hooks/hunter2}
                b: {type: email, to: x@y, tls: hunter2}
            """
        )
    )
    assert said.count("\n") >= 5
    assert "hunter2" not in said


# --- defaults and shorthands -----------------------------------------------------------------------------------------


def test_defaults_reach_into_sections_and_the_chain_has_the_last_word(desk: Desk) -> None:
    config = desk.load(
        """
        defaults:
          batch: all.sh
          sbatch: [--qos=low]
          mode: observe
          checkpoints: {directory: ck, format: deepspeed, hand_over: file}
          recovery: {retries: 9, nodes: {max_excluded: 3}}
        chains:
          plain:
          own:
            batch: own.sh
            sbatch: [--qos=high, -p, gpu]
            checkpoints: ck/own
            recovery: {nodes: {max_share: 0.5}}
          none:
            checkpoints:
            recovery: off
        """
    )
    plain, own, none = (config.chains[name] for name in ("plain", "own", "none"))
    assert plain.checkpoints is not None
    assert (plain.batch.name, plain.checkpoints.directory, plain.mode) == ("all.sh", desk.folder / "ck", "observe")
    assert own.checkpoints is not None
    assert (own.checkpoints.directory, own.checkpoints.format) == (desk.folder / "ck/own", "deepspeed")
    assert own.checkpoints.hand_over is HandOver.FILE
    assert own.sbatch == ("--qos=high", "-p", "gpu"), "a list is replaced, not added to"
    assert (own.recovery.retries, own.recovery.nodes.max_excluded, own.recovery.nodes.max_share) == (9, 3, 0.5)
    assert none.checkpoints is None, "an empty value takes the default away"
    assert (none.recovery.enabled, none.recovery.retries) == (False, 9)


def test_a_default_in_short_is_merged_with_a_section_in_full(desk: Desk) -> None:
    text = "defaults: {batch: x, checkpoints: ck, resubmitter: site}\nchains: {a: {checkpoints: {format: npz}}}\n"
    chain = desk.load(text).chains["a"]
    assert chain.checkpoints is not None
    assert (chain.checkpoints.directory, chain.checkpoints.format) == (desk.folder / "ck", "npz")
    assert chain.resubmitter.by == "site"


def test_what_most_people_need_can_be_written_in_short(desk: Desk) -> None:
    chain = desk.chain("done: {mark: all done, file: out/done.json}\nresubmitter: script\nrecovery: off\n")
    assert chain.done.mark is not None
    assert chain.done.file is not None
    assert (chain.done.mark.pattern, chain.done.file.path) == ("all done", "out/done.json")
    assert (chain.resubmitter.by, chain.recovery.enabled) == ("script", False)


def test_words_of_a_command_line_are_a_list_or_a_line_in_shell_quotes(desk: Desk) -> None:
    chain = desk.chain("args: --name 'my run' --lr 1e-4\nsbatch: --qos=extra -p gpu\n")
    assert chain.args == ("--name", "my run", "--lr", "1e-4")
    assert chain.sbatch == ("--qos=extra", "-p", "gpu")


# --- paths -----------------------------------------------------------------------------------------------------------


def test_relative_paths_are_the_files_and_a_chains_own_the_chains(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir("/")
    path = desk.write(
        """
        state: state
        slurm: {conf: etc/slurm.conf}
        web: {socket: off, listen: '[::1]:1', token_file: token}
        alerts: {channels: {team: {type: slack, url_file: hook}}}
        chains:
          here: {batch: here.sh, checkpoints: ck, environment: job.env, logs: {signatures: own.yaml}}
          there: {batch: ../there.sh, directory: $SCRATCH/run, checkpoints: {directory: ck}, environment: login}
          sub: {batch: ~/sub.sh, directory: sub, checkpoints: ./ck/}
          fixed: {batch: /x/../fixed.sh, checkpoints: '${SCRATCH}/ck'}
        """,
        "conf/chainwatch.yaml",
    )
    config, base = load(path).config, tmp_path / "conf"
    here, there, sub, fixed = (config.chains[name] for name in ("here", "there", "sub", "fixed"))
    assert config.state == base / "state"
    assert config.slurm.conf == base / "etc/slurm.conf"
    assert (config.web.socket, config.web.token_file) == ("off", base / "token")
    assert getattr(config.alerts.channels["team"], "url_file") == base / "hook"  # noqa: B009
    assert (here.batch, here.environment, here.logs.signatures) == (
        base / "here.sh", str(base / "job.env"), base / "own.yaml",
    )  # fmt: skip
    assert here.checkpoints is not None
    assert here.checkpoints.directory == base / "ck"
    assert (there.batch, there.directory, there.environment) == (
        tmp_path / "there.sh", Path("/scratch/me/run"), "login",
    )  # fmt: skip
    assert there.checkpoints is not None
    assert Path("/scratch/me/run") / there.checkpoints.directory == Path("/scratch/me/run/ck")
    assert sub.batch == Path("/home/me/sub.sh")
    assert sub.checkpoints is not None
    assert sub.checkpoints.directory == base / "sub/ck"
    assert fixed.checkpoints is not None
    assert (fixed.batch, fixed.checkpoints.directory) == (Path("/fixed.sh"), Path("/scratch/me/ck"))


def test_a_variable_that_is_not_set_and_a_user_that_does_not_exist_are_errors(desk: Desk) -> None:
    assert desk.chain_problems("directory: ~nosuchuser/x\ncheckpoints: $NO_SUCH_VARIABLE/x\n") == [
        "4: chains.a.directory: no user 'nosuchuser' is known here",
        "5: chains.a.checkpoints: the environment variable NO_SUCH_VARIABLE is not set",
    ]


def test_an_address_is_no_path_and_is_not_made_one(desk: Desk) -> None:
    [problem] = desk.chain_problems("checkpoints: s3://bucket/run\n")
    assert problem.startswith("4: chains.a.checkpoints: a path is expected, not an address")


def test_a_relative_configuration_is_that_of_the_working_directory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("chains: {a: {batch: x.sh}}")
    monkeypatch.chdir(desk.folder)
    loaded = load(Path("chainwatch.yaml"))
    assert loaded.config.chains["a"].batch == desk.folder / "x.sh"
    assert loaded.files == (desk.folder / "chainwatch.yaml",)


# --- many files ------------------------------------------------------------------------------------------------------


def test_the_files_of_a_directory_are_joined_and_defaults_stay_in_their_file(desk: Desk) -> None:
    desk.write("poll: 90s\ndefaults: {mode: observe}\nchains: {a: {batch: a.sh}}\n", "d/10-a.yaml")
    desk.write("poll: 90s\nchains: {b: {batch: b.sh}}\n", "d/20-b.yml")
    desk.write("chains: {c: {batch: }}\n", "d/.hidden.yaml")
    desk.write("nothing", "d/README.md")
    loaded = load(desk.folder / "d")
    assert [f.name for f in loaded.files] == ["10-a.yaml", "20-b.yml"]
    assert {n: c.mode for n, c in loaded.config.chains.items()} == {"a": "observe", "b": "act"}
    assert loaded.config.poll == timedelta(seconds=90)


def test_files_that_contradict_each_other_are_refused_with_both_places(desk: Desk) -> None:
    desk.write("poll: 30s\nchains:\n  a: {batch: a.sh}\n", "d/1.yaml")
    desk.write("chains:\n  a: {batch: b.sh}\npoll: 60s\n", "d/2.yaml")
    desk.write("chains:\n\tb: 1\n", "d/3.yaml")
    desk.write("chains: {d: {batch: x, mode: akt}}\n", "d/4.yaml")
    with pytest.raises(ConfigError) as refused:
        load(desk.folder / "d")
    said = str(refused.value).replace(f"{desk.folder}/d/", "").splitlines()
    assert [line[:60] for line in said] == [
        "2.yaml:2: chains.a: is defined in 1.yaml:3 too",
        "2.yaml:3: poll: contradicts 1.yaml:1",
        "3.yaml:2: a tab indents here; YAML allows only spaces",
        "4.yaml:1: chains.d.mode: `observe` or `act` is expected, not",
    ]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a/b", "../x", "-x", ".x", "_x", "ü", "a\\nb", "x" * 101, "a~1", "a:b"]
)
def test_a_name_that_is_not_safe_everywhere_is_refused(desk: Desk, name: str) -> None:
    assert len(desk.problems(f'chains:\n  "{name}": {{batch: x}}\n')) == 1


@pytest.mark.parametrize("name", ["a", "1", "llama-7b_v1.2", "x" * 100, "no", "A.b"])
def test_a_safe_name_is_taken(desk: Desk, name: str) -> None:
    assert set(desk.load(f"chains: {{'{name}': {{batch: x}}}}").chains) == {name}


def test_rules_of_other_rooms_speak_with_file_and_line_too(desk: Desk) -> None:
    path = desk.write("chains:\n  a:\n    batch: x\n    args: [--bad]\n")
    with pytest.raises(ConfigError, match=r"chainwatch.yaml:4: chains\.a\.args: must be good"):
        load(path, [lambda config: [(("chains", "a", "args"), "must be good")]])


# --- hand-over -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["variable", "argument"])
def test_a_checkpoint_that_is_fixed_at_submission_needs_no_requeue(desk: Desk, way: str) -> None:
    [problem] = desk.chain_problems(f"checkpoints: {{directory: ck, hand_over: {way}}}\n")
    assert "--no-requeue" in problem
    desk.chain(f"checkpoints: {{directory: ck, hand_over: {way}}}\nsbatch: [--no-requeue]\n")


def test_a_moment_without_a_zone_is_local_time(desk: Desk) -> None:
    for text in ("2026-09-01", "2026-09-01T18:00", "'2026-09-01 18:00:00'", "2026-09-01T18:00+02:00"):
        until = desk.chain(f"caps: {{until: {text}}}\n").caps.until
        assert until is not None
        assert until.tzinfo is not None


# --- any input -------------------------------------------------------------------------------------------------------

_KEYS = sorted(
    {*Config.model_fields, *Chain.model_fields, "defaults", "each", "matrix", "csv", "directory", "path", "x"}
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["30s", "~/x", "$HOME", "{x}", "observe", "99999999999w", "off", "custom"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
_CONFIGS = st.fixed_dictionaries(
    {
        "chains": st.dictionaries(
            st.sampled_from(["a", "b-{x}", "no"]), st.dictionaries(st.sampled_from(_KEYS), _VALUES)
        )
    },
    optional={key: _VALUES for key in _KEYS if key != "chains"},
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(config=_CONFIGS)
def test_whatever_is_written_the_answer_is_a_configuration_or_its_problems(
    config: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{os.getpid()}.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True))
    loaded, problems = _outcome(path)
    assert (loaded is None) is bool(problems)
    assert all(p.file == str(path) and "\n" not in p.message for p in problems)
    for chain in loaded.chains.values() if loaded else ():
        stored = json.loads(json.dumps(chain.model_dump(mode="json")))
        assert Chain.model_validate(stored) == chain, "what the store keeps is what was configured"


def _outcome(path: Path) -> tuple[Config | None, list[Problem]]:
    try:
        return load(path).config, []
    except ConfigError as error:
        return None, error.problems


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(raw=st.binary(max_size=200))
def test_whatever_bytes_a_file_holds_there_is_no_traceback(
    raw: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"bytes-{os.getpid()}.yaml"
    path.write_bytes(raw)
    loaded, problems = _outcome(path)
    assert (loaded is None) is bool(problems)
