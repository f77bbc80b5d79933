"""`chainwatch lint`: known gaps of batch scripts. Pure: the text goes in, findings come out.

Each rule is a function with its source in its docstring; `RULES` lists them. `Site` is what is known of the cluster, so
that rules stay silent about what slurm.conf already sets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.script import Command, Script, read
from chainwatch.model.durations import show_duration
from chainwatch.model.text import make_directories


@dataclass(frozen=True, slots=True)
class Site:
    """What is known of the cluster and of the chain's past. None: not known."""

    kill_on_bad_exit: bool | None = None
    """KillOnBadExit of slurm.conf."""
    grace: timedelta | None = None
    """GraceTime of the QOS or partition: what preemption leaves to the job."""
    requeue: bool | None = None
    """JobRequeue of slurm.conf."""
    between_failures: timedelta | None = None
    """Mean time between ends of this chain's jobs, as measured."""
    save_takes: timedelta | None = None
    """How long one save takes, as measured."""
    save_every: timedelta | None = None
    """Time between two saves, as measured."""
    missing_log_directories: tuple[str, ...] = ()
    """Directories that --output or --error name and that are not there."""


def lint(text: str, site: Site | None = None) -> list[Finding]:
    """All findings of a batch script, by line."""
    script, site = read(text), site or Site()
    found = [finding for rule in RULES for finding in rule(script, site)]
    return sorted(found, key=lambda f: (f.line or 0, f.code))


def _training(script: Script) -> list[Command]:
    return [command for command in script.commands if command.trains]


def late_options(script: Script, _: Site) -> Iterator[Finding]:
    """sbatch(1): options after the first command are not processed."""
    for line in script.late:
        yield Finding(
            "late_sbatch",
            Level.PROBLEM,
            "this #SBATCH line stands after the first command",
            "Slurm stops reading options there, so it has no effect.",
            "Move it above the first command.",
            line,
        )


def warning_signal(script: Script, site: Site) -> Iterator[Finding]:
    """sbatch(1) --signal; GraceTime in slurm.conf(5)."""
    signal = script.options.get("signal")
    if signal is None:
        grace = f" (preemption leaves {show_duration(site.grace)} here)" if site.grace else ""
        yield Finding(
            "no_signal",
            Level.ADVICE,
            "no --signal",
            f"The training hears nothing before its time limit, and cannot save{grace}.",
            "Add #SBATCH --signal=USR1@300 (to the steps) and save on USR1, with more seconds than a save takes.",
        )
        return
    match = re.fullmatch(r"(?:([BR]+):)?(\w+)(?:@(\d+))?", signal)
    line = script.option_lines.get("signal")
    if match and match[1] and "B" in match[1]:
        name = match[2].upper().removeprefix("SIG")
        traps = any(c.name == "trap" and any(name in w.upper() for w in c.words[2:]) for c in script.commands)
        execs = any(c.name == "exec" and c.trains for c in script.commands)
        if not traps and not execs:
            yield Finding(
                "signal_to_shell",
                Level.PROBLEM,
                f"--signal={signal} goes to the batch shell, which neither traps {name} nor hands it on",
                "A shell dies of a signal that it does not trap: the job ends early and nothing is saved.",
                f"Drop the `B:` so that the steps get it, or `exec` the training, or trap {name} and pass it on.",
                line,
            )
    if match and match[3] and site.grace and int(match[3]) > site.grace.total_seconds():
        yield Finding(
            "signal_after_grace",
            Level.ADVICE,
            f"--signal comes {match[3]} s before the time limit, but preemption leaves only "
            f"{show_duration(site.grace)}",
            "At a preemption the training gets SIGTERM and that much time, whatever --signal says.",
            "Save on SIGTERM too, and keep a save shorter than the grace time.",
            line,
        )


def trap_waits(script: Script, _: Site) -> Iterator[Finding]:
    """bash(1), SIGNALS: a trap runs only after the foreground command ends."""
    traps = [c for c in script.commands if c.name == "trap" and len(c.words) > 2 and "EXIT" not in c.words]
    if not traps:
        return
    for command in _training(script):
        if command.after != "&" and command.name != "exec":
            yield Finding(
                "trap_waits",
                Level.PROBLEM,
                "the training runs in the foreground of a shell that traps signals",
                "bash runs a trap only when the foreground command has ended: the signal arrives too late.",
                'Start it with `&` and then `wait "$!"`, or start it with `exec` and let it handle the signal itself.',
                command.line,
            )


def no_step(script: Script, _: Site) -> Iterator[Finding]:
    """scancel(1): signals other than SIGKILL are not sent to the batch step; --signal without B: goes to steps."""
    signal = script.options.get("signal", "")
    for command in _training(script):
        if "srun" not in {w.rsplit("/", 1)[-1] for w in command.words[:4]} and command.name != "exec":
            if signal.startswith(("B:", "RB:", "BR:")):
                continue  # the rule about the shell says it
            yield Finding(
                "not_a_step",
                Level.ADVICE,
                f"`{command.name}` is started by the shell, not by srun",
                "Signals before the time limit and from scancel go to job steps; a child of the shell hears none, "
                "and accounting has no step that says how it ended.",
                "Start it with srun, or with `exec` as the last command.",
                command.line,
            )


def open_mode(script: Script, site: Site) -> Iterator[Finding]:
    """sbatch(1) --open-mode: a requeued job truncates its log unless told otherwise (JobFileAppend)."""
    if script.options.get("open-mode") == "append" or script.has("no-requeue"):
        return
    if site.requeue is False and not script.has("requeue"):
        return
    yield Finding(
        "log_truncated",
        Level.PROBLEM if script.has("requeue") else Level.ADVICE,
        "no --open-mode=append",
        "A requeue keeps the job id, so the next attempt truncates the log that says why the last one died.",
        "Add #SBATCH --open-mode=append, or --no-requeue.",
    )


def log_directory(script: Script, site: Site) -> Iterator[Finding]:
    """slurmstepd of 22.05 gives up where it cannot open the job's output (FAILED 0:53); 24.11 makes the directory."""
    for path in site.missing_log_directories:
        yield Finding(
            "log_directory",
            Level.PROBLEM,
            f"{path}, where the job's output goes, is not there",
            "Older Slurm (22.05) ends such a job at its start, without a word of output anywhere.",
            f"Make it before you submit: {make_directories([path])}",
            script.option_lines.get("output", script.option_lines.get("error")),
        )


def bad_exit(script: Script, site: Site) -> Iterator[Finding]:
    """srun(1) --kill-on-bad-exit, --wait; slurm.conf(5) KillOnBadExit, WaitTime."""
    if site.kill_on_bad_exit or "SLURM_KILL_BAD_EXIT" in script.exports:
        return
    many = any(script.options.get(o, "1") not in {"", "1"} for o in ("nodes", "ntasks", "ntasks-per-node"))
    for command in _training(script):
        if not command.name.endswith("srun"):
            continue
        tasks = command.option("ntasks", "n") or command.option("nodes", "N") or command.option("ntasks-per-node")
        if not many and (tasks or "1") == "1":
            continue
        if command.option("kill-on-bad-exit", "K") is None and command.option("wait", "W") is None:
            yield Finding(
                "ranks_left_behind",
                Level.PROBLEM,
                "srun without --kill-on-bad-exit",
                "When one rank dies the others wait for it in a collective until the time limit, and burn GPUs.",
                "Add --kill-on-bad-exit=1 to srun (or --wait=60).",
                command.line,
            )


def buffered(script: Script, _: Site) -> Iterator[Finding]:
    """python(1) -u: output to a file is buffered in blocks."""
    if script.exports.get("PYTHONUNBUFFERED", (0, ""))[1]:
        return
    for command in _training(script):
        python = command.python
        if any(w.startswith("PYTHONUNBUFFERED=") for w in command.words):
            continue
        if python and not any(re.fullmatch(r"-[a-zA-Z]*u[a-zA-Z]*", w) for w in python[1:4]):
            yield Finding(
                "buffered",
                Level.ADVICE,
                "Python writes its output in blocks",
                "The last lines before a kill are lost, progress is seen late, and silence looks like a hang.",
                "Set PYTHONUNBUFFERED=1, or use python -u.",
                command.line,
            )


def resubmits(script: Script, _: Site) -> Iterator[Finding]:
    """Two that resubmit one chain start two jobs of it."""
    if script.has("requeue"):
        yield Finding(
            "requeue",
            Level.ADVICE,
            "--requeue",
            "Slurm requeues the job under the same id with the same arguments: a checkpoint fixed at submission "
            "has grown old. chainwatch follows it, if the script resolves its checkpoint at the start.",
            "Use $(chainwatch latest DIR) in the script, or --no-requeue and leave it to chainwatch.",
            script.option_lines.get("requeue"),
        )
    for command in script.commands:
        name = command.name.rsplit("/", 1)[-1]
        again = name == "sbatch" and (
            "$0" in command.words or "${0}" in command.words or "--dependency" in str(command.words)
        )
        if again or (name == "scontrol" and "requeue" in command.words):
            yield Finding(
                "resubmits_itself",
                Level.PROBLEM,
                f"the script resubmits itself with {name}",
                "chainwatch would submit beside it.",
                "Remove it and leave it to chainwatch, or say so in the configuration: resubmitter: script.",
                command.line,
            )


_RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}


def nccl(script: Script, _: Site) -> Iterator[Finding]:
    """PyTorch 2.2 renamed its own variables (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)."""
    for old, new in _RENAMED.items():
        if old in script.exports:
            yield Finding(
                "nccl_renamed",
                Level.ADVICE,
                f"{old} has been {new} since PyTorch 2.2",
                "The old name is deprecated; newer releases ignore it, silently.",
                f"Set {new}.",
                script.exports[old][0],
            )
    for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"):
        line, value = script.exports.get(name, (0, ""))
        if value == "0":
            yield Finding(
                "nccl_async_off",
                Level.PROBLEM,
                f"{name}=0",
                "A rank whose peer died then waits for ever, instead of ending with an error that names the cause.",
                "Remove it: 3 (clean up and end) is the default.",
                line,
            )


_PICKS = re.compile(
    r"(ls|find|echo|printf)\b.*\|\s*(?:.*\|\s*)?(sort\b.*\|\s*(tail|head)|tail\b|head\b)|\bls\s+-\w*[tv]\w*.*\|\s*(head|tail)"
)
_CHECKPOINTY = re.compile(r"(?i)ckpt|checkpoint|global_step|step[-_=]|epoch|latest|iter_|resume")


def newest_by_number(script: Script, _: Site) -> Iterator[Finding]:
    """The night that chainwatch exists for: the highest number was the one that was cut."""
    for number, line in script.lines:
        if _PICKS.search(line) and _CHECKPOINTY.search(line) and "chainwatch" not in line:
            yield Finding(
                "newest_by_number",
                Level.PROBLEM,
                "the checkpoint to resume from is picked by its number or time alone",
                "A job that is killed while it saves leaves a damaged checkpoint with the highest number; the next job "
                "picks it and dies.",
                "Use $(chainwatch latest DIR), which picks the newest intact one.",
                number,
            )


def exit_code_lost(script: Script, _: Site) -> Iterator[Finding]:
    """bash(1): a pipeline's status is that of its last command; `wait` without an id returns 0."""
    pipefail = any(c.name == "set" and "pipefail" in c.words for c in script.commands)
    commands = script.commands
    for number, command in enumerate(commands):
        following = commands[number + 1] if number + 1 < len(commands) else None
        if not command.trains or following is None:
            continue
        if command.after in {"|", "|&"} and not pipefail:
            yield Finding(
                "exit_code_lost",
                Level.PROBLEM,
                f"the exit code of the training is lost in the pipe to {following.name}",
                "The job ends with 0 when the training fails, and Slurm records COMPLETED.",
                "Add `set -o pipefail`.",
                command.line,
            )
        if command.after == "||" and following.name in {"true", ":"}:
            yield Finding(
                "exit_code_lost",
                Level.PROBLEM,
                "the exit code of the training is thrown away by `|| true`",
                "The job ends with 0 when the training fails, and Slurm records COMPLETED.",
                "Remove it.",
                command.line,
            )
        if command.after == "&" and any(c.words == ("wait",) for c in commands[number:]):
            yield Finding(
                "exit_code_lost",
                Level.PROBLEM,
                "`wait` without an id returns 0 whatever the training returned",
                "The job ends with 0 when the training fails, and Slurm records COMPLETED.",
                'Use `wait "$pid"` with the id from `$!`, and exit with its status.',
                next(c.line for c in commands[number:] if c.words == ("wait",)),
            )


def save_interval(_: Script, site: Site) -> Iterator[Finding]:
    """Young 1974: the interval that loses least is sqrt(2 · save time · mean time between failures); of an interval half
    is lost at each end."""
    if not (site.between_failures and site.save_every):
        return
    takes = site.save_takes or timedelta(minutes=1)
    best = timedelta(seconds=math.sqrt(2 * takes.total_seconds() * site.between_failures.total_seconds()))
    share = site.save_every / site.between_failures / 2
    ratio = site.save_every / best
    if 0.5 <= ratio <= 2 or (site.save_takes is None and (ratio < 1 or share < 0.05)):
        return
    often = "more often" if ratio > 1 else "less often"
    known = "With saves of" if site.save_takes else "If a save takes"
    yield Finding(
        "save_interval",
        Level.ADVICE,
        f"it saves every {_about(site.save_every)}, and its jobs end every {_about(site.between_failures)}"
        + (f": about {min(share, 1):.0%} of the training is lost" if ratio > 1 else ""),
        f"{known} {_about(takes)} the least time is lost by saving every {_about(best)}.",
        f"Save {often}.",
    )


def _about(span: timedelta) -> str:
    """To two units: nobody sets a save to the second."""
    seconds = round(span.total_seconds())
    unit = 3600 if seconds >= 2 * 86400 else 60 if seconds >= 600 else 1
    return show_duration(timedelta(seconds=max(1, round(seconds / unit)) * unit))


RULES: tuple[Callable[[Script, Site], Iterator[Finding]], ...] = (
    late_options,
    warning_signal,
    trap_waits,
    no_step,
    open_mode,
    log_directory,
    bad_exit,
    buffered,
    resubmits,
    nccl,
    newest_by_number,
    exit_code_lost,
    save_interval,
)
