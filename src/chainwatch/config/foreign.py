"""Words of other tools: what somebody means who writes `max_restarts:`, `sweep:` or `partition:` into a chain."""

from __future__ import annotations

import re

_SWEEP = "did you mean `each`? `each: {matrix: {lr: [0.1, 0.3]}}` makes a chain of every value, `{lr}` stands for it"
_TOLD = {
    "array": "an array of one task at a time is a chain by `sbatch: [--array=0-9%1]`; a chain of each task is made by "
    "`each: {matrix: {task: [0, 1]}}` with `sbatch: [--array={task}]`",
    "requeue": "chainwatch resubmits by itself (`recovery`); Slurm's own requeue is `sbatch: [--requeue]`, and "
    "`resubmitter` says who else resubmits",
    "resume": "whether and from where the next job resumes follows from `checkpoints`",
    **dict.fromkeys(("sweep", "matrix", "grid", "foreach", "for_each", "axes", "parameters", "params", "csv"), _SWEEP),
}
_RENAMED = {
    "recovery.retries": "max_restarts max_retries restarts retry tries restart_limit max_failures num_retries",
    "recovery.backoff": "retry_delay restart_delay retry_interval delay",
    "caps.attempts": "max_attempts max_jobs max_submissions",
    "caps.until": "deadline end_time not_after",
    "batch": "batch_script job_script sbatch_script submit_script command cmd entrypoint run exec",
    "args": "arguments script_args argv",
    "sbatch": "sbatch_args sbatch_options slurm slurm_args options resources",
    "directory": "workdir work_dir cwd working_directory working_dir workspace",
    "environment": "env env_vars variables",
    "checkpoints": "checkpoint checkpoint_dir ckpt ckpt_dir save_dir output_dir run_dir",
    "logs.files": "log log_dir log_file logfile stdout stderr",
    "done.step": "steps max_steps total_steps num_steps train_steps iterations max_iters",
    "hang.alert_after": "timeout hang_timeout heartbeat_timeout stall_timeout watchdog",
    "alerts": "notify notifications webhook slack email mail",
    "mode": "dry_run observe",
    "cluster": "clusters",
}
_MEANT = {word: ours for ours, words in _RENAMED.items() for word in words.split()}
_SBATCH = frozenset(
    re.findall(
        r"\w+",
        """account begin chdir comment constraint cpus_per_gpu cpus_per_task dependency error exclude exclusive export gpus
        gpus_per_node gpus_per_task gres hold input job_name licenses mail_type mail_user mem mem_per_cpu mem_per_gpu
        nice nodelist nodes ntasks ntasks_per_node open_mode output partition priority qos reservation signal switches
        time time_min walltime time_limit timelimit wckey queue name cores cpus""",
    )
)
_OPTION = {
    "walltime": "time", "time_limit": "time", "timelimit": "time", "queue": "partition", "name": "job-name",
    "cores": "cpus-per-task", "cpus": "cpus-per-task",
}  # fmt: skip


def meant(key: str) -> str:
    """What a key of a chain means that other tools have and chainwatch has not, for people; empty where nobody knows."""
    word = key.lower().replace("-", "_")
    if word in _TOLD:
        return _TOLD[word]
    if word in _MEANT:
        return f"did you mean `{_MEANT[word]}`?"
    if word in _SBATCH:
        option = _OPTION.get(word, word.replace("_", "-"))
        return f"what sbatch is asked for stands in the script, or in `sbatch: [--{option}=…]`"
    return ""
