"""What preemption does to the jobs of the configured chains, and how much time it leaves them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from chainwatch.actions import options as words
from chainwatch.config.models import Chain
from chainwatch.doctor.asking import Patient
from chainwatch.doctor.finding import Finding, Level
from chainwatch.doctor.script import read
from chainwatch.model.durations import show_duration
from chainwatch.slurm import NoInformation
from chainwatch.slurm.times import parse_duration


@dataclass(frozen=True, slots=True)
class Rule:
    """One QOS or partition."""

    mode: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class Rules:
    """The cluster's, by name."""

    qos: dict[str, Rule]
    partitions: dict[str, Rule]
    default_partition: str = ""

    def of(self, chain: Chain, script: str) -> tuple[str, Rule] | None:
        """What holds for the jobs of a chain: its QOS where that says something, else its partition."""
        given = used_options(chain, script)
        qos, partition = given.get("qos", ""), given.get("partition", self.default_partition).split(",")[0]
        rule = self.qos.get(qos)
        if rule is not None and (rule.grace or rule.mode not in {"", "cluster"}):
            return f"QOS {qos}", rule
        if partition in self.partitions:
            return f"partition {partition}", self.partitions[partition]
        return None if rule is None else (f"QOS {qos}", rule)


def used_options(chain: Chain, script: str) -> dict[str, str]:
    """The sbatch options of a chain's jobs by long name: the script's, and over them the configuration's."""
    given = words.components(words.parse(chain.sbatch).options)[0]
    return {**read(script).options, **{o.name: o.value or "" for o in given}}


def rules(patient: Patient) -> Rules:
    """What the cluster says of its QOS and partitions; each part is empty where it gives no answer."""
    qos: dict[str, Rule] = {}
    partitions: dict[str, Rule] = {}
    default = ""
    try:
        text = patient.ask("sacctmgr", "-n", "-P", "show", "qos", "format=Name,PreemptMode,GraceTime").text
        for row in text.splitlines():
            name, mode, grace = [*row.split("|"), "", "", ""][:3]
            qos[name] = Rule(mode, parse_duration(grace) or timedelta(0))
    except NoInformation:
        pass
    try:
        for line in patient.ask("scontrol", "show", "partition", "--oneliner").text.splitlines():
            fields = dict(re.findall(r"(\w+)=(\S*)", line))
            if "PartitionName" in fields:
                seconds = int(fields["GraceTime"]) if fields.get("GraceTime", "").isdigit() else 0
                partitions[fields["PartitionName"]] = Rule(fields.get("PreemptMode", ""), timedelta(seconds=seconds))
                default = fields["PartitionName"] if fields.get("Default") == "YES" else default
    except NoInformation:
        pass
    return Rules(qos, partitions, default)


def preemption(patient: Patient) -> Iterator[Finding]:
    """PreemptMode, and GraceTime of the QOS or partition that each chain uses."""
    mode = patient.slurm.get("PreemptMode", "")
    if not patient.slurm:
        return
    if mode in {"", "OFF"}:
        yield Finding("preemption", Level.OK, "jobs are not preempted here (PreemptMode=OFF)")
        return
    known = rules(patient)
    chains = patient.config.chains if patient.config else {}
    used = {name: found for name, chain in chains.items() if (found := known.of(chain, patient.script(chain)))}
    if used:
        seen = dict.fromkeys(used.values())
        told = ", ".join(f"{where}: {_said(rule)}" for where, rule in seen)
    else:
        graced = {f"QOS {name}": rule for name, rule in known.qos.items() if rule.grace}
        graced |= {f"partition {name}": rule for name, rule in known.partitions.items() if rule.grace}
        told = ", ".join(f"{where}: {_said(rule)}" for where, rule in graced.items()) or "no grace time anywhere"
    yield Finding("preemption", Level.OK, f"PreemptMode={mode}; {told}")
    short = sorted({where for where, rule in used.values() if not rule.grace and rule.mode.upper() != "OFF"})
    if short or (not used and (known.qos or known.partitions) and "no grace" in told):
        yield Finding(
            "no_grace",
            Level.ADVICE,
            f"{', '.join(short) or 'no QOS'} has no GraceTime",
            "A preempted job is killed within KillWait, often while it saves.",
            "Save often, keep several checkpoints, and ask the site for a GraceTime.",
        )


def _said(rule: Rule) -> str:
    mode = f"{rule.mode.lower()}, " if rule.mode and rule.mode != "cluster" else ""
    return f"{mode}grace {show_duration(rule.grace)}" if rule.grace else f"{mode}no grace"
