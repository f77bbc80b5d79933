"""One sbatch call: what of the user is kept, what is joined, what wins, and what must not leak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chainwatch.actions import options
from chainwatch.actions.compose import (
    AVOID,
    CHAIN,
    JOB_FILES,
    RESUME_FILE,
    Order,
    alone_by_name,
    compose,
    digest,
    job_name,
    resume_path,
)
from chainwatch.actions.tag import Tag
from chainwatch.config.models import Chain, Checkpoints, HandOver
from chainwatch.model.chain import FromCheckpoint, FromScratch, Resume
from chainwatch.model.checkpoint import Checkpoint, Status
from chainwatch.slurm.backend import Submission

TAG = Tag("0123abcd", "llama", "0123456789abcdef")
STEP_20 = FromCheckpoint(Checkpoint("/run/step_20", 20, "deepspeed", Status.INTACT, "whole"))
PLAIN = "#!/bin/bash\nsrun train\n"


def chain(**settings: Any) -> Chain:
    return Chain(batch=Path("/run/train.sh"), **settings)


def order(script: str = PLAIN, resume: Resume = STEP_20, **more: Any) -> Order:
    given: dict[str, Any] = {"environment": {"HOME": "/home/ada"}, **more}
    return Order(
        tag=TAG,
        script="/run/train.sh",
        script_text=script,
        directory="/run",
        resume=resume,
        resume_file="/state/resume/llama",
        **given,
    )


def option(made: Submission, name: str) -> str | None:
    """The value that sbatch will use of an option on the line."""
    return options.last(options.parse([*made.options, made.script]).options, name)


def test_the_plain_call_carries_tag_names_and_nothing_more() -> None:
    made = compose(chain(args=("--steps", "9")), order())
    assert made.options == (f"--comment={TAG}",)
    silent = compose(chain(sbatch=("-Q", "--parsable")), order())
    assert silent.options == made.options, "what keeps the job id from us would make each submission a doubtful one"
    assert made.args == ("--steps", "9")
    assert made.directory == "/run"
    assert dict(made.environment) == {
        "HOME": "/home/ada", CHAIN: "llama", RESUME_FILE: "/state/resume/llama", JOB_FILES: "/run/.chainwatch"
    }  # fmt: skip


def test_the_job_side_is_told_where_the_checkpoints_are_and_nothing_stale() -> None:
    where = {"directory": "ckpt", "format": "deepspeed"}
    made = dict(compose(chain(checkpoints=where), order()).environment)
    assert (made["CHAINWATCH_CHECKPOINTS"], made["CHAINWATCH_FORMAT"]) == ("/run/ckpt", "deepspeed")


def test_the_job_side_is_told_the_users_own_rule_and_the_paths_in_the_container() -> None:
    rule = {"checkpoint": "step_{step}", "files": [{"glob": "*.bin"}]}
    own = {"directory": "ckpt", "format": "custom", "custom": rule, "paths": {"/run": "/data"}}
    made = dict(compose(chain(checkpoints=own), order()).environment)
    assert (made["CHAINWATCH_CHECKPOINTS"], made["CHAINWATCH_FORMAT"]) == ("/run/ckpt", "custom")
    assert json.loads(made["CHAINWATCH_RULE"]) == rule
    assert json.loads(made["CHAINWATCH_PATHS"]) == {"/run": "/data"}


def test_a_checkpoint_is_handed_over_as_the_container_sees_it() -> None:
    where = {"directory": "ckpt", "hand_over": "variable", "paths": {"/run": "/data"}}
    made = compose(chain(checkpoints=where, sbatch=("--no-requeue",)), order())
    assert dict(made.environment)["CHAINWATCH_RESUME_FROM"] == "/data/step_20"


@pytest.mark.parametrize(
    ("script", "sbatch"),
    [
        ("#!/bin/bash\n#SBATCH --comment='my run'\n", ()),
        ("#!/bin/bash\n#SBATCH --comment=other\n", ("--comment=my run",)),
        ("#!/bin/bash\n", ("--comm", "my run")),
    ],
)
def test_the_users_comment_is_joined_for_a_second_one_would_replace_it(script: str, sbatch: tuple[str, ...]) -> None:
    made = compose(chain(sbatch=sbatch), order(script))
    assert option(made, "comment") == f"my run {TAG}"
    assert sum(word.startswith("--comm") for word in made.options) == 1


def test_a_tag_in_the_users_comment_is_replaced() -> None:
    old = Tag("0123abcd", "llama", "f" * 16)
    assert option(compose(chain(sbatch=(f"--comment=x {old}",)), order()), "comment") == f"x {TAG}"


OWN = ("--dependency=afterok:7",)


@pytest.mark.parametrize(
    ("sbatch", "more", "expected"),
    [
        ((), {}, None),
        ((), {"previous": "12"}, "afterany:12"),
        ((), {"previous": "12_4", "singleton": True}, "afterany:12_4,singleton"),
        (OWN, {"first": True}, "afterok:7"),
        (OWN, {"first": True, "previous": "12", "singleton": True}, "afterok:7,afterany:12,singleton"),
        (OWN, {"previous": "12"}, "afterany:12"),
        (OWN, {}, ""),
        (("-dafterok:7?afterok:8",), {"first": True, "singleton": True}, "afterok:7?afterok:8"),
        (("-dafterok:7?afterok:8",), {"previous": "12"}, "afterany:12"),
        (("--dependency=singleton",), {}, "singleton"),
        (("--dependency=afterok:7,singleton",), {"previous": "12", "singleton": True}, "singleton,afterany:12"),
    ],
)
def test_dependencies_are_joined_while_they_can_hold(
    sbatch: tuple[str, ...], more: dict[str, Any], expected: str | None
) -> None:
    assert option(compose(chain(sbatch=sbatch), order(**more)), "dependency") == expected


def test_singleton_keeps_jobs_apart_under_a_name_of_their_own_and_het_jobs_from_themselves() -> None:
    plain, het = "#!/bin/bash\n#SBATCH --job-name=llama\n", "#!/bin/bash\n#SBATCH --job-name=llama\n#SBATCH hetjob\n"
    assert alone_by_name(chain(), plain, "llama")
    assert not alone_by_name(chain(), plain, "other")
    assert not alone_by_name(chain(), het, "llama")


def test_every_component_of_a_het_job_is_submitted_and_ours_stands_with_the_first() -> None:
    """The kind: a command line that is read up to the first word that is no option, and loses the rest."""
    het = chain(sbatch=("--job-name=llama", "-n1", ":", "-n2", "--exclude=n1", "--comment=x", ":", "-n3"))
    made = compose(het, order(exclude=("n7",), extra=("--qos=low",), previous="7"))
    first, second, third = options.components(options.parse(made.options).options)
    assert options.without(first) == (
        "--job-name=llama", "-n1", "--qos=low", f"--comment={TAG}", "--dependency=afterany:7", "--exclude=n7"
    )  # fmt: skip
    assert options.without(second) == ("-n2", "--exclude=n1,n7")
    assert options.without(third) == ("-n3",), "what it does not say it has from the first"
    assert not alone_by_name(het, PLAIN, "llama")


def test_a_dependency_of_the_script_that_was_satisfied_long_ago_is_taken_off() -> None:
    made = compose(chain(), order("#!/bin/bash\n#SBATCH -d afterok:7\n"))
    assert "--dependency=" in made.options


@pytest.mark.parametrize(
    ("own", "left", "nodes"),
    [
        ("-w n7", "", "1"),
        ("--nodelist=n[6-9] -N4", "n[6,8-9]", None),
        ("--nodelist=n[6-9]", "n[6,8-9]", "4"),
        ("--nodelist=n[1-2]", None, None),
        ("", None, None),
    ],
)
def test_a_node_of_the_users_own_list_that_is_excluded_is_not_asked_for(
    own: str, left: str | None, nodes: str | None
) -> None:
    script = f"#!/bin/bash\n#SBATCH {own} -J x\n"
    made = compose(chain(), order(script, exclude=("n7",)))
    assert (option(made, "nodelist"), option(made, "nodes")) == (left, nodes)
    assert option(compose(chain(), order(script)), "nodelist") is None, "without an exclusion it stays as it is"
    on_line = compose(chain(sbatch=own.split()), order(exclude=("n7",)))
    assert option(on_line, "nodelist") == (
        left if left is not None else options.last(options.parse(own.split()).options, "nodelist")
    )


def test_excluded_nodes_join_the_users_own() -> None:
    made = compose(chain(), order("#!/bin/bash\n#SBATCH -x n[1-2]\n", exclude=("n7",)))
    assert option(made, "exclude") == "n[1-2],n7"
    assert option(compose(chain(), order(exclude=("n7",))), "exclude") == "n7"


def test_options_of_a_recovery_come_last_and_win() -> None:
    made = compose(chain(sbatch=("--qos=normal",)), order(extra=("--qos=extra", "--nice=5")))
    assert option(made, "qos") == "extra"
    assert option(made, "nice") == "5"


def test_the_parsable_of_the_user_does_not_come_twice() -> None:
    assert "--parsable" not in compose(chain(sbatch=("--parsable", "--hold")), order()).options


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("ALL", "ALL"),
        ("NIL", "NIL"),
        ("NONE", f"{CHAIN},{RESUME_FILE},{JOB_FILES}"),
        ("A,B=2", f"A,B=2,{CHAIN},{RESUME_FILE},{JOB_FILES}"),
        ("ALL,B=2", f"ALL,B=2,{CHAIN},{RESUME_FILE},{JOB_FILES}"),
    ],
)
def test_our_variables_get_through_the_users_export(own: str, expected: str) -> None:
    assert option(compose(chain(sbatch=(f"--export={own}",)), order()), "export") == expected
    assert option(compose(chain(), order(f"#!/bin/bash\n#SBATCH --export={own}\n")), "export") == expected


def test_checkpoints_that_killed_a_job_are_named_to_the_next_one_and_only_then() -> None:
    made = dict(compose(chain(), order(avoid=("/run/a", "/run/b"))).environment)
    assert made[AVOID] == "/run/a:/run/b"
    again = order(environment={AVOID: "/run/old", "HOME": "/"})
    assert AVOID not in dict(compose(chain(), again).environment)


def fixed(hand_over: HandOver, **more: Any) -> Chain:
    where = Checkpoints(directory=Path("/run"), hand_over=hand_over, **more)
    return chain(checkpoints=where, sbatch=("--no-requeue",), args=("a",))


def test_a_variable_hands_the_checkpoint_over_and_never_an_old_one() -> None:
    settings = fixed(HandOver.VARIABLE, variable="RESUME")
    assert dict(compose(settings, order()).environment)["RESUME"] == "/run/step_20"
    stale = order(resume=FromScratch("first"), environment={"RESUME": "/run/step_10"})
    assert "RESUME" not in dict(compose(settings, stale).environment)


def test_an_argument_hands_the_checkpoint_over() -> None:
    settings = fixed(HandOver.ARGUMENT, argument="--resume={path}@{step}")
    assert compose(settings, order()).args == ("a", "--resume=/run/step_20@20")
    assert compose(settings, order(resume=FromScratch("first"))).args == ("a",)


def test_a_task_of_an_array_is_submitted_alone() -> None:
    made = compose(chain(sbatch=("--array=0-9",)), order(array_task="4"))
    assert option(made, "array") == "4"


def test_a_kept_copy_of_a_script_gives_the_job_the_name_that_the_script_would() -> None:
    assert option(compose(chain(), order(job_name="train.sh")), "job-name") == "train.sh"
    named = order("#!/bin/bash\n#SBATCH -J mine\n", job_name="train.sh")
    assert option(compose(chain(), named), "job-name") is None


def test_the_job_name_is_the_last_one_given() -> None:
    assert job_name(chain(sbatch=("-Jb",)), "#!/bin/bash\n#SBATCH -J a\n") == "b"
    assert job_name(chain(), "#!/bin/bash\n#SBATCH -J a\n") == "a"
    assert job_name(chain(), PLAIN) is None


def test_a_script_is_told_by_its_bytes() -> None:
    assert digest(b"a") != digest(b"a\n")
    assert digest(b"a").startswith("sha256:")
    assert resume_path(STEP_20) == "/run/step_20"
    assert resume_path(FromScratch("x")) is None
