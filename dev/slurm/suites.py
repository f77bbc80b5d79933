"""Newer releases of Slurm from newer Debian suites, as directory trees in a cache: `python -m dev.slurm.suites SUITE…`.

apt resolves and fetches the packages from the mirror that this machine's own configuration names, with its keys and
proxies; dpkg-deb unpacks them. No package script is run: what they would do for Slurm is a handful of files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.slurm.installation import missing_programs
from dev.slurm.system import MARK

PACKAGES = (
    *(
        "base-files",
        "bash",
        "coreutils",
        "findutils",
        "gawk",
        "grep",
        "hostname",
        "libc-bin",
        "procps",
        "python3",
        "sed",
        "util-linux",
    ),
    *("munge", "mariadb-server-core", "mariadb-client-core", "slurm-wlm", "slurmdbd"),
)
OLD = "bookworm"
"""The suite whose libmariadb slurmdbd gets: with that of the newer ones (11.8) it ends with error 5027."""
RECIPE = 1
"""Raise it when trees must be made anew."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class SuiteUnavailable(Exception):
    """The tree cannot be made here: one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One Debian suite, and the packages of it that a tree has."""

    name: str
    release: str
    """The Slurm that it had when this was written: `24.11`."""
    packages: tuple[str, ...] = PACKAGES


TRIXIE = Suite("trixie", "24.11")
SID = Suite("sid", "26.05", (*PACKAGES, "python3-venv", "python3-dev", "gcc", "libc6-dev", "libslurm-dev"))
"""With what builds pyslurm."""
SUITES = {suite.name: suite for suite in (TRIXIE, SID)}


def cache() -> Path:
    """Where trees are kept: CHAINWATCH_CACHE, or `chainwatch` in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("CHAINWATCH_CACHE") or Path(base) / "chainwatch")


def tree(suite: Suite) -> Path:
    """The suite's tree, made if it is not there. Raises `SuiteUnavailable`."""
    if os.geteuid() != 0:
        raise SuiteUnavailable("a chroot needs root")
    for program in ("apt-get", "dpkg-deb", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise SuiteUnavailable(f"{program} is not on PATH")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        raise SuiteUnavailable("this machine allows no mount namespace (a container without CAP_SYS_ADMIN?)")
    home = cache() / "slurm" / suite.name
    home.mkdir(parents=True, exist_ok=True)
    recipe = hashlib.sha256(json.dumps([RECIPE, asdict(suite)]).encode()).hexdigest()
    with _locked(home / "lock"):
        made, note = home / "tree", home / "recipe"
        if not (made.is_dir() and note.exists() and note.read_text() == recipe):
            note.unlink(missing_ok=True)
            shutil.rmtree(made, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=home, prefix="making-") as making:
                built = _make(suite, Path(making))
                built.rename(made)
            note.write_text(recipe)
        return made


def _make(suite: Suite, work: Path) -> Path:
    options = _apt_options(suite, work)
    made = work / "tree"
    made.mkdir(mode=0o755)
    archives = work / "cache" / "archives"
    _run("apt-get", "-qq", *options, "update")
    _run("apt-get", "-qq", "-y", *options, "--download-only", "install", *suite.packages)
    for package in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "--extract", str(package), str(made))
        package.unlink()
    _run("apt-get", "-qq", *options, "download", f"libmariadb3/{OLD}", cwd=archives)
    old = work / "old"
    _run("dpkg-deb", "--extract", str(next(archives.glob("libmariadb3*.deb"))), str(old))
    _finish(made, next(old.glob("usr/lib/*/libmariadb.so.3")))
    missing = missing_programs(made)
    if missing:
        raise SuiteUnavailable(f"the suite {suite.name} did not bring {', '.join(missing)}")
    return made


def _finish(made: Path, libmariadb: Path) -> None:
    """What package scripts would have done, as far as Slurm's daemons need it."""
    for name in ("passwd", "group", "hosts", "nsswitch.conf", "localtime"):
        if Path("/etc", name).exists():
            shutil.copy(Path("/etc", name), made / "etc" / name)
    if (bundle := Path("/etc/ssl/certs/ca-certificates.crt")).exists():
        (made / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        shutil.copy(bundle, made / "etc/ssl/certs")
    for name, program in (("awk", "gawk"), ("sh", "bash")):
        link = made / "usr/bin" / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    for program in ("slurmctld", "slurmd", "slurmstepd"):
        link = made / "usr/sbin" / program
        if not link.exists() and (link.parent / f"{program}-wlm").exists():
            link.symlink_to(f"{program}-wlm")
    library = made / "opt" / "chainwatch" / "libmariadb.so.3"
    library.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(libmariadb, library)
    (made / MARK).touch()


def _apt_options(suite: Suite, work: Path) -> list[str]:
    """An apt of its own below `work` that fetches where the machine's apt does, and knows no installed package."""
    for directory in ("lists/partial", "cache/archives/partial"):
        (work / directory).mkdir(parents=True)
    (work / "status").touch()
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    mirror = _mirror()
    sources = work / "sources.list"
    sources.write_text("".join(f"deb {signed}{mirror} {name} main\n" for name in (suite.name, OLD)))
    chosen = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": work / "lists",
        "Dir::State::Status": work / "status",
        "Dir::State::Extended_States": work / "extended_states",
        "Dir::Cache": work / "cache",
        "APT::Install-Recommends": "false",
        "APT::Get::List-Cleanup": "false",
        "APT::Sandbox::User": "root",
        "APT::Default-Release": suite.name,
        "APT::Update::Post-Invoke": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Binary::apt-get::APT::Keep-Downloaded-Packages": "true",
    }
    return [f"-o{key}={value}" for key, value in chosen.items()]


def _mirror() -> str:
    """Where this machine's apt fetches Debian from."""
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN) $(CREATED_BY)"],
        capture_output=True,
        text=True,
        check=False,
    )
    codename = _codename()
    for line in shown.stdout.splitlines():
        uri, release, component, *rest = line.split()
        if (release, component) == (codename, "main") and "Packages" in rest and "security" not in uri:
            return uri
    raise SuiteUnavailable("apt's configuration names no mirror of Debian")


def _codename() -> str:
    pairs = (line.partition("=") for line in Path("/etc/os-release").read_text().splitlines())
    found = {key: value.strip('"') for key, _, value in pairs}
    if found.get("ID") != "debian":
        raise SuiteUnavailable("newer suites are taken from Debian's mirror, and this is no Debian")
    return found.get("VERSION_CODENAME", "")


def _run(*argv: str, cwd: Path | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SuiteUnavailable(f"{argv[0]} failed: {said[-1] if said else f'exit {done.returncode}'}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One maker at a time, on this machine."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(names: Sequence[str]) -> int:
    """Make the trees of the suites named (all by default), and pyslurm where it can be built; print where they are."""
    from dev.slurm.library import build

    code = 0
    for name in names or SUITES:
        try:
            made = tree(SUITES[name])
            print(f"{name}: {made}", flush=True)
            if "libslurm-dev" in SUITES[name].packages:
                print(f"{name}: pyslurm for {build(made)}", flush=True)
        except SuiteUnavailable as reason:
            print(f"{name}: not available: {reason}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
