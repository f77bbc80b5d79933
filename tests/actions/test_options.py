"""sbatch's command lines and #SBATCH lines, taken apart."""

from __future__ import annotations

import pytest

from chainwatch.actions import options
from chainwatch.actions.options import last, parse, script_options, without


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--qos=extra"], "qos", "extra"),
        (["--qos", "extra"], "qos", "extra"),
        (["-q", "extra"], "qos", "extra"),
        (["-qextra"], "qos", "extra"),
        (["-q=extra"], "qos", "extra"),
        (["-d", "afterok:7"], "dependency", "afterok:7"),
        (["--depend=afterok:7"], "dependency", "afterok:7"),
        (["--comm", "mine"], "comment", "mine"),
        (["--job=x"], "job-name", "x"),
        (["-J", "-odd-"], "job-name", "-odd-"),
        (["-x", "n1,n2"], "exclude", "n1,n2"),
        (["--parsable"], "parsable", ""),
        (["-H"], "hold", ""),
        (["--exclusive"], "exclusive", ""),
        (["--exclusive=user"], "exclusive", "user"),
        (["--array=0-9%1"], "array", "0-9%1"),
        (["--comment=a=b"], "comment", "a=b"),
    ],
)
def test_every_way_to_write_an_option_means_the_same(words: list[str], name: str, value: str) -> None:
    line = parse([*words, "job.sh", "--qos=not-mine", "-d"])
    assert last(line.options, name) == value
    assert line.script == "job.sh"
    assert line.args == ("--qos=not-mine", "-d")
    assert list(line.option_words) == words


def test_an_option_with_an_optional_value_takes_no_other_word() -> None:
    assert parse(["--nice", "job.sh"]).script == "job.sh"
    assert parse(["--no-requeue", "job.sh", "x"]).args == ("x",)
    assert parse(["-k", "--requeue", "job.sh"]).script == "job.sh"


def test_a_double_dash_ends_the_options() -> None:
    line = parse(["--qos=a", "--", "--odd-name.sh", "arg"])
    assert (line.script, line.args) == ("--odd-name.sh", ("arg",))


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ValueError, match="--qos needs a value"):
        parse(["--qos"])


def test_an_ambiguous_beginning_stays_as_it_is_for_sbatch_to_refuse() -> None:
    assert parse(["--ntasks-per=3", "job.sh"]).options[0].name == "ntasks-per"


def test_no_program_and_no_script_is_no_error() -> None:
    assert parse([]) == options.CommandLine((), None, ())


SCRIPT = """#!/bin/bash
#SBATCH --job-name=run --qos=low   # a note
#SBATCH -d singleton

# a comment
##SBATCH --comment=no
#SBATCH --comment="two words"
export A=1
#SBATCH --qos=too-late
"""


def test_script_lines_are_read_up_to_the_first_command() -> None:
    found = script_options(SCRIPT)
    assert [(o.name, o.value) for o in found] == [
        ("job-name", "run"),
        ("qos", "low"),
        ("dependency", "singleton"),
        ("comment", "two words"),
    ]


HET = """#!/bin/bash
#SBATCH --job-name=run --qos=low
#SBATCH hetjob
#SBATCH --job-name=helper --qos=other
echo
"""


def test_of_a_het_job_the_leaders_options_count() -> None:
    assert options.is_het(HET)
    assert options.is_het(HET.replace("hetjob", "packjob"))
    assert [(o.name, o.value) for o in script_options(HET)] == [("job-name", "run"), ("qos", "low")]


def test_a_command_line_may_have_several_components() -> None:
    line = parse(["-n1", "-q", "low", ":", "-q", "other", "-x", "n1", "job.sh", ":", "a"])
    assert (line.script, line.args) == ("job.sh", (":", "a"))
    assert last(line.options, "qos") == "low"
    assert last(line.options, "exclude") is None
    assert options.leading(line.option_words, "--hold") == (
        "-n1",
        "-q",
        "low",
        "--hold",
        ":",
        "-q",
        "other",
        "-x",
        "n1",
    )


@pytest.mark.parametrize(
    "text", [SCRIPT, "", "#!/bin/bash\necho\n#SBATCH hetjob\n", "#!/bin/bash\n#SBATCH --comment=hetjob\n"]
)
def test_other_scripts_are_no_het_job(text: str) -> None:
    assert not options.is_het(text)


def test_a_line_that_cannot_be_taken_apart_hides_no_other() -> None:
    text = "#!/bin/bash\n#SBATCH --comment='open\n#SBATCH --qos=low\n"
    assert last(script_options(text), "qos") == "low"


def test_the_last_one_given_counts() -> None:
    line = parse(["--qos=a", "-q", "b", "job.sh"])
    assert last(line.options, "qos") == "b"
    assert last(line.options, "account") is None


def test_options_are_left_out_with_all_their_words() -> None:
    line = parse(["-q", "b", "--comment", "mine", "--hold", "--comm=again", "job.sh"])
    assert without(line.options, "comment") == ("-q", "b", "--hold")
