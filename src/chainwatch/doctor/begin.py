"""A first configuration, inferred from a batch script or a running job; every line says what it is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from chainwatch.doctor.script import Script, read
from chainwatch.model.job import Job

_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_SAVE_TO = re.compile(
    r"--(?:output[-_]dir|save|save[-_]dir|checkpoint[-_]dir|ckpt[-_]dir|default[-_]root[-_]dir|checkpoint[-_]path)"
    r"[= ]+(\S+)"
)
_STEPS = re.compile(r"--(?:max[-_]steps|train[-_]iters|total[-_]steps|num[-_]steps|max[-_]train[-_]steps)[= ]+(\d+)")


@dataclass(frozen=True, slots=True)
class Begin:
    """What a configuration begins with."""

    name: str
    batch: Path
    directory: Path | None = None
    checkpoints: str | None = None
    """As the script names it; None where nothing says it."""
    final_step: int | None = None
    latest: bool = False
    """The script resolves its checkpoint by chainwatch already."""
    args: tuple[str, ...] = ()
    sbatch: tuple[str, ...] = ()
    """Options that were typed before the script."""
    mode: str = "act"


def from_script(path: Path, text: str) -> Begin:
    """What the script itself says."""
    script = read(text)
    whole = "\n".join(line for _, line in script.lines)
    name = script.options.get("job-name") or path.stem
    where = script.options.get("chdir")
    return Begin(
        name=_NAME.sub("-", name).strip("-.") or "run",
        batch=path,
        directory=Path(where) if where else None,
        checkpoints=_checkpoints(script, whole),
        final_step=int(match[1]) if (match := _STEPS.search(whole)) else None,
        latest="chainwatch" in whole,
    )


def from_job(job: Job, text: str) -> Begin:
    """What a running job says: its script, arguments and directory. In mode observe: somebody else made it."""
    words = job.command.split() or [""]
    begin = from_script(Path(words[0]), text)
    name = _NAME.sub("-", job.name).strip("-.") or begin.name
    return Begin(
        name,
        begin.batch,
        Path(job.directory) if job.directory else begin.directory,
        begin.checkpoints,
        begin.final_step,
        begin.latest,
        tuple(words[1:]),
        mode="observe",
    )


def render(begin: Begin, file: str = "") -> str:
    """The configuration as commented YAML. `file`: where it will be, unless commands find it by themselves."""
    quoted = _quoted
    lines = [
        "# chainwatch: what it keeps alive, and how. `chainwatch check` reads it, `chainwatch run` acts on it.",
        "",
        "chains:",
        f"  {quoted(begin.name)}:",
        f"    batch: {quoted(str(begin.batch))}",
    ]
    if begin.args:
        lines.append(f"    args: [{', '.join(quoted(word) for word in begin.args)}]")
    if begin.sbatch:
        lines.append(f"    sbatch: [{', '.join(quoted(word) for word in begin.sbatch)}]")
    if begin.directory:
        lines.append(f"    directory: {quoted(str(begin.directory))}")
    lines.append(f"    mode: {begin.mode}            # observe: says what it would do; act: does it")
    lines += ["", "    # Where the checkpoints are. Without this chainwatch cannot choose one."]
    if begin.checkpoints:
        lines += ["    checkpoints:", f"      directory: {quoted(begin.checkpoints)}"]
    else:
        lines += ["    # checkpoints:", "    #   directory: checkpoints"]
    mark = "" if begin.checkpoints else "# "
    if begin.latest:
        lines.append(f"    {mark}  hand_over: command      # the script calls chainwatch itself")
    else:
        lines += [
            f"    {mark}  # The script does not ask `$(chainwatch latest DIR)` for its checkpoint yet, so damaged ones",
            f"    {mark}  # are moved aside (`chainwatch restore` undoes it). Once it asks, write: command",
            f"    {mark}  hand_over: set_aside",
        ]
    lines += [
        "",
        "    # What proves that it is done. Without this a clean exit 0 is taken for done, and said to be assumed.",
    ]
    if begin.final_step:
        lines += ["    done:", f"      step: {begin.final_step}"]
    else:
        lines += ["    # done:", "    #   step: 100000", "    #   mark: Training complete"]
    lines += [
        "",
        "# Who hears when a chain needs a person. Write the webhook's URL to that file, mode 0600, and try it with",
        f"# `chainwatch alert test{f' -c {file}' if file else ''}`.",
        "# alerts:",
        "#   channels:",
        "#     team: {type: slack, url_file: ~/.config/chainwatch/slack-url}",
        "",
    ]
    return "\n".join(lines)


def _checkpoints(script: Script, whole: str) -> str | None:
    for pattern in (r"chainwatch latest\s+(?:--\S+\s+)*[\"']?([^\s)\"']+)", _SAVE_TO.pattern):
        if (match := re.search(pattern, whole)) and (found := _literal(match[1], script)):
            return found
    for name, (_, value) in script.exports.items():
        if re.search(r"(?i)(ckpt|checkpoint|save|output).*dir|^(ckpt|checkpoint)s?$", name) and (
            found := _literal(value, script)
        ):
            return found
    return None


def _literal(text: str, script: Script) -> str | None:
    """The text with the script's own variables filled in; None where something remains that only a shell can tell."""
    for _ in range(5):
        text = re.sub(
            r"\$\{?(\w+)\}?", lambda m: script.exports[m[1]][1] if m[1] in script.exports else m[0], text.strip("\"'")
        )
    text = re.sub(r"^\$\{?(PWD|SLURM_SUBMIT_DIR)\}?/", "", text)  # the chain's own directory
    known = re.sub(r"\$\{?(HOME|USER|SCRATCH|WORK)\}?", "", text)
    return text if text and not re.search(r"[$`*?()<>|]", known) and PurePosixPath(text).name else None


def _quoted(text: str) -> str:
    """The text as one YAML word."""
    return yaml.safe_dump(text, allow_unicode=True, width=10**6).removesuffix("\n").removesuffix("...").strip()
