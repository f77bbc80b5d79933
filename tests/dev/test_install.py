"""The installer leaves alone what it did not bring."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "dev" / "install"


def install(what: str, record: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the installer against a record of its own; without a terminal, as in CI."""
    kept = {name: value for name, value in os.environ.items() if name != "EXISTING_SLURM"}
    return subprocess.run(
        [INSTALL, what],
        env={**kept, "CHAINWATCH_DEV_RECORD": str(record), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user is never refused: nothing could be harmed")
def test_root_is_refused_where_a_slurm_is_that_it_did_not_install(slurm_installed: None, tmp_path: Path) -> None:
    refused = install("slurm", tmp_path / "nothing-installed-by-us")
    assert refused.returncode == 1
    assert "a Slurm or munge is here that this did not install" in refused.stderr
    assert "munged" in refused.stderr
    assert "EXISTING_SLURM=use" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_installed_programs_are_used_where_a_person_says_so(slurm_installed: None, tmp_path: Path) -> None:
    used = install("slurm", tmp_path / "nothing-installed-by-us", EXISTING_SLURM="use")
    assert (used.returncode, used.stderr) == (0, "")


def test_a_python_that_is_named_and_good_is_taken(tmp_path: Path) -> None:
    found = install("python", tmp_path / "record")
    assert found.returncode == 0
    version = subprocess.run([found.stdout.strip(), "-V"], capture_output=True, text=True).stdout
    assert tuple(map(int, version.split()[1].split(".")[:2])) >= (3, 11)


def test_an_unknown_word_is_answered_with_the_usage(tmp_path: Path) -> None:
    wrong = install("everything", tmp_path / "record")
    assert wrong.returncode == 1
    assert "usage: dev/install" in wrong.stderr


# -- asking, on a machine that lacks make and a usable Python, with a stand-in for apt

TOOLS = "awk bash cat chmod cut dirname env grep head ls mkdir mktemp mv paste readlink rm sed sort tail touch"
APT = """#!/bin/bash
echo "$*" >>{calls}
case " $* " in
*" -s "*) echo "Inst make (4.3 stand-in)" ;;
*" install "*) touch {bin}/make {bin}/python3 && chmod 755 {bin}/make {bin}/python3 ;;
esac
"""


class Bare:
    """A machine of which only some tools are to be seen, whose apt-get is a stand-in, and whose user is root."""

    def __init__(self, where: Path) -> None:
        self.bin, self.calls, self.record = where / "bin", where / "calls", where / "record"
        self.bin.mkdir()
        for tool in TOOLS.split():
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)
        self.program("id", "echo 0")
        self.program("dpkg-query", "exit 1")
        self.program("apt-get", APT.format(calls=self.calls, bin=self.bin))
        self.environment = {
            "PATH": str(self.bin), "HOME": str(where), "CHAINWATCH_DEV_RECORD": str(self.record),
            "CHAINWATCH_DEV_POLICY": str(where / "policy-rc.d"),
        }  # fmt: skip

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}\n")
        (self.bin / name).chmod(0o755)

    @property
    def installed(self) -> int:
        """How often apt was asked to install."""
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return sum(" install " in f" {call} " and " -s " not in f" {call} " for call in calls)

    def on_a_terminal(self, answer: str, *words: str, **more: str) -> tuple[int, str]:
        """Run the installer with a terminal in front of it; the exit code, and what was to be seen."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [INSTALL, *words], env={**self.environment, **more}, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.write(ours, answer.encode())
        seen = b""
        while True:
            try:
                more_seen = os.read(ours, 4096)
            except OSError:  # EIO: nobody holds the other end any more
                break
            if not more_seen:
                break
            seen += more_seen
        os.close(ours)
        return process.wait(10), seen.decode()


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path)


def test_on_a_terminal_it_says_what_it_would_do_and_asks_once_for_everything(bare: Bare) -> None:
    code, seen = bare.on_a_terminal("y\n", "make", "python")
    assert code == 0, seen
    assert seen.count("go on? [y/N]") == 1
    said = seen.index("installing the distribution's packages make python3 python3-venv")
    assert said < seen.index("go on?")
    assert bare.installed == 1
    assert bare.record.read_text() == "make\n"


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"], ids=["no", "nothing", "end"])
def test_whoever_does_not_say_yes_gets_nothing(bare: Bare, answer: str) -> None:
    code, seen = bare.on_a_terminal(answer, "make")
    assert code == 1
    assert bare.installed == 0
    assert not bare.record.exists()
    assert "nothing was installed" in seen


def test_yes_in_the_environment_answers(bare: Bare) -> None:
    code, seen = bare.on_a_terminal("", "make", YES="1")
    assert (code, bare.installed) == (0, 1), seen
    assert "go on?" not in seen
    assert "installing the distribution's packages make" in seen


def test_without_a_terminal_it_says_what_it_does_and_goes_on(bare: Bare) -> None:
    done = subprocess.run(
        [INSTALL, "make"], env=bare.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (done.returncode, bare.installed) == (0, 1), done.stderr
    assert "go on?" not in done.stderr
    assert "installing the distribution's packages make" in done.stderr
    assert not (bare.record.parent / "policy-rc.d").exists(), "services of other packages may start again"


def test_services_of_new_packages_are_kept_from_starting_and_an_older_policy_comes_back(bare: Bare) -> None:
    policy = bare.record.parent / "policy-rc.d"
    policy.write_text("the site's own\n")
    seen_by_apt = bare.record.parent / "seen"
    bare.program(
        "apt-get",
        APT.format(calls=bare.calls, bin=bare.bin) + f'case " $* " in *" -y "*) cat {policy} >{seen_by_apt};; esac',
    )
    assert bare.on_a_terminal("y\n", "make")[0] == 0
    assert "exit 101" in seen_by_apt.read_text()
    assert policy.read_text() == "the site's own\n"


def test_an_installation_that_fails_says_what_apt_said(bare: Bare) -> None:
    bare.program(
        "apt-get",
        "case \" $* \" in *' -s '*) echo 'Inst make (1)';; *' install '*) echo 'E: held broken packages'; exit 100;; esac",
    )
    code, seen = bare.on_a_terminal("y\n", "make")
    assert code == 1
    assert "held broken packages" in seen
    assert "apt-get install failed" in seen
    assert not (bare.record.parent / "policy-rc.d").exists()


def test_a_plain_user_hears_who_can_install_it(bare: Bare) -> None:
    bare.program("id", "echo 1000")
    code, seen = bare.on_a_terminal("y\n", "make")
    assert (code, bare.installed) == (1, 0)
    assert "only root can install packages" in seen
