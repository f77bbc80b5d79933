"""Checks of the cluster: releases, accounting, preemption, requeue, timers, limits and clocks."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.preemption import used_options
from chainwatch.model.durations import show_duration
from chainwatch.slurm import NoInformation
from chainwatch.slurm.scontrol import parse_config
from chainwatch.slurm.weaker import Weakness, of_release

OLDEST = (20, 11)


def controller(patient: Patient) -> Iterator[Finding]:
    """Slurm answers, and its release is known to work."""
    try:
        reply = patient.ask("scontrol", "show", "config")
    except NoInformation as error:
        yield Finding(
            "controller",
            Level.PROBLEM,
            f"Slurm does not answer: {error}",
            "Nothing can be watched or submitted from here.",
            "Run it on a login node; check SLURM_CONF, PATH, munge and the network to the controller.",
        )
        return
    patient.slurm = parse_config(reply.text)
    version = patient.slurm.get("SLURM_VERSION", "unknown")
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        yield Finding("version", Level.ADVICE, f"Slurm {version} is older than what is tested (20.11)")
    else:
        yield Finding("version", Level.OK, f"Slurm {version} on cluster {patient.slurm.get('ClusterName', '?')}")
        less = of_release(version)
        if less:
            yield Finding(
                "release_weaker", Level.ADVICE, f"Slurm {version} tells less than newer releases",
                ". ".join(_sentence(one.value) for one in less) + ".", "Nothing has to be done; the site may upgrade.",
            )  # fmt: skip
    skew = re.search(r"as of (\d{9,})", reply.text)
    if skew and abs(int(skew[1]) - patient.now.timestamp()) > 30:
        away = round(int(skew[1]) - patient.now.timestamp())
        yield Finding(
            "clock_skew",
            Level.PROBLEM,
            f"this machine's clock and the controller's differ by {abs(away)} s",
            "Ends, waits and leases are judged by time; munge refuses credentials beyond five minutes.",
            "Ask the site to synchronise the clocks.",
        )


def tools(_: Patient) -> Iterator[Finding]:
    """The client programs are there."""
    missing = [tool for tool in ("squeue", "sacct", "scontrol", "sbatch", "scancel", "sinfo") if not shutil.which(tool)]
    if missing:
        yield Finding(
            "tools",
            Level.PROBLEM,
            f"not on PATH: {', '.join(missing)}",
            "chainwatch asks Slurm through them.",
            "Load the site's Slurm module, or name the directory with slurm: {bin: …}.",
        )
    else:
        yield Finding("tools", Level.OK, "squeue, sacct, scontrol, sbatch, scancel and sinfo are on PATH")


def accounting(patient: Patient) -> Iterator[Finding]:
    """sacct answers for this user."""
    declared = patient.config is not None and not patient.config.slurm.accounting
    if _bare(patient):
        yield Finding(
            "no_accounting",
            Level.ADVICE,
            "sacct is not asked (slurm: {accounting: false})" if declared else "this site keeps no accounting",
            f"{Weakness.NO_ACCOUNTING.value}. Every verdict says so.",
            "Run the command by `chainwatch exec`, and poll at least twice within MinJobAge.",
        )
        return
    try:
        patient.ask("sacct", "-X", "-n", "-P", "-u", patient.user, "-S", "now-1hours", "-o", "JobIDRaw")
    except NoInformation as error:
        yield Finding(
            "accounting",
            Level.PROBLEM,
            f"accounting does not answer: {error}",
            "How a job ended is only known while the controller remembers it (MinJobAge), without steps.",
            "Ask the site whether sacct can be used. Where it cannot, say so with slurm: {accounting: false}, and shorten "
            "`poll` below MinJobAge.",
        )
        return
    yield Finding("accounting", Level.OK, "sacct answers")
    flags = patient.slurm.get("AccountingStoreFlags", "")
    if patient.slurm and "job_comment" not in flags:
        yield Finding(
            "store_flags",
            Level.ADVICE,
            "accounting does not keep comments (AccountingStoreFlags has no job_comment)",
            "A submission whose answer was lost is then found by the submit line instead, which older releases do not "
            "keep either.",
            "Ask the site for AccountingStoreFlags=job_comment.",
        )


def requeue(patient: Patient) -> Iterator[Finding]:
    """JobRequeue and JobFileAppend."""
    if patient.slurm.get("JobRequeue") == "1" and patient.slurm.get("JobFileAppend") == "0":
        yield Finding(
            "requeue_truncates",
            Level.ADVICE,
            "jobs are requeued (JobRequeue=1), and a requeue truncates their logs (JobFileAppend=0)",
            "The log that says why the last attempt died is overwritten by the next.",
            "Use --open-mode=append in every script, or --no-requeue.",
        )


def timers(patient: Patient) -> Iterator[Finding]:
    """MinJobAge against the poll; MessageTimeout against `settle`."""
    age = _seconds(patient.slurm.get("MinJobAge", ""))
    poll = patient.config.poll if patient.config else timedelta(seconds=60)
    if age is not None and age < 2 * poll.total_seconds():
        yield Finding(
            "min_job_age",
            Level.PROBLEM if age < poll.total_seconds() or _bare(patient) else Level.ADVICE,
            f"the controller forgets ended jobs after {age} s (MinJobAge), and polls are {show_duration(poll)} apart",
            "PreemptTime and the exit codes of some ends are never seen.",
            f"Set poll: to at most {max(1, age // 2)}s, or ask the site for a longer MinJobAge.",
        )
    message = _seconds(patient.slurm.get("MessageTimeout", ""))
    settle = patient.config.settle if patient.config else timedelta(seconds=90)
    if message is not None and settle.total_seconds() < 2 * message:
        yield Finding(
            "settle",
            Level.PROBLEM,
            f"settle is {show_duration(settle)}, and MessageTimeout is {message} s",
            "A submission that is still on its way could be taken for lost, and made twice.",
            f"Set settle: to at least {2 * message}s.",
        )


def bad_exit(patient: Patient) -> Iterator[Finding]:
    """KillOnBadExit."""
    if patient.slurm.get("KillOnBadExit") == "0":
        yield Finding(
            "kill_on_bad_exit",
            Level.ADVICE,
            "steps go on when a task fails (KillOnBadExit=0)",
            "The other ranks wait for the dead one until the time limit.",
            "Use srun --kill-on-bad-exit=1; `chainwatch lint` finds scripts without it.",
        )


def limits(patient: Patient) -> Iterator[Finding]:
    """MaxSubmitJobs of the user's associations and of the QOS that the chains use, against the number of chains."""
    if not patient.slurm:
        return
    try:
        text = patient.ask(
            "sacctmgr", "-n", "-P", "show", "assoc", f"user={patient.user}", "format=Account,Partition,MaxSubmitJobs"
        ).text
    except NoInformation as error:
        yield Finding("limits", Level.UNKNOWN, f"the submission limits could not be read: {error}")
        return
    chains = patient.config.chains.values() if patient.config else ()
    for row in text.splitlines():
        account, _, most = [*row.split("|"), "", ""][:3]
        yield from _too_few(f"account {account}", most, len(chains))
    used = Counter(used_options(chain, patient.script(chain)).get("qos", "") for chain in chains)
    for name, most in _qos_limits(patient).items():
        if used[name]:
            yield from _too_few(f"QOS {name}", most, used[name])


def _qos_limits(patient: Patient) -> dict[str, str]:
    """MaxSubmitJobsPerUser by QOS; none where Slurm gives no answer."""
    try:
        text = patient.ask("sacctmgr", "-n", "-P", "show", "qos", "format=Name,MaxSubmitPU").text
    except NoInformation:
        return {}
    rows = (row.split("|") for row in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def _too_few(who: str, most: str, chains: int) -> Iterator[Finding]:
    """A chain needs room for a second job: the next one is submitted while the last is still being counted."""
    if most.isdigit() and int(most) < max(2, chains):
        yield Finding(
            "max_submit_jobs",
            Level.PROBLEM,
            f"{who} allows {most} submitted jobs, and {chains} chain{'s' * (chains != 1)} {'are' if chains != 1 else 'is'} "
            "configured for it",
            "Submissions beyond that are refused, and chains wait for each other.",
            "Ask for a higher MaxSubmitJobs, or run fewer chains at once.",
        )


def _bare(patient: Patient) -> bool:
    """Nobody but the controller knows of ends here: there is no accounting, or it must not be asked."""
    if patient.config is not None and not patient.config.slurm.accounting:
        return True
    return bool(patient.slurm) and not patient.slurm.get("AccountingStorageType", "").endswith("slurmdbd")


def _sentence(clause: str) -> str:
    return clause[:1].upper() + clause[1:]


def _seconds(text: str) -> int | None:
    match = re.match(r"(\d+)", text)
    return int(match[1]) if match else None
