#!/usr/bin/env python3
"""A training run without torch: several ranks, slow saves, real checkpoints. For the demo and the tests.

It writes what DeepSpeed writes with ZeRO stage 2 and bf16, in DeepSpeed's order: `global_stepN/mp_rank_00_model_states.pt`
by rank 0 alone, then, when that is done, `bf16_zero_pp_rank_R_mp_rank_00_optim_states.pt` by every rank, then `latest`.
Killed while rank 0 writes its model state it leaves that file cut and no optimizer file at all. One task of srun is one
rank (SLURM_PROCID, SLURM_NTASKS). Python 3.8 and the standard library are enough.

How it resumes (`--resume`): PATH, a step directory; `file`, what the file that $CHAINWATCH_RESUME_FILE names says (empty:
from scratch; no such variable: as `auto`); `latest`, what the pointer file says; `auto`, as naive as many scripts are:
the step directory with the highest number. On a damaged checkpoint it dies as torch does, with exit code 1.
"""

import argparse
import os
import re
import signal
import socket
import sys
import time
from collections import OrderedDict

import torch_zip

RANK = int(os.environ.get("SLURM_PROCID", "0"))
WORLD = int(os.environ.get("SLURM_NTASKS", "1"))
MODEL = "mp_rank_00_model_states.pt"
OPTIMIZER = "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt"
VERSION = "0.19.8"


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, on_signal(args.on_term))
    os.makedirs(args.checkpoints, exist_ok=True)
    start = resume(args)
    say("training from step %d to step %d, world size %d" % (start, args.steps, WORLD))
    for step in range(start + 1, args.steps + 1):
        time.sleep(args.step_seconds)
        fault(args, step)
        report(args, step)
        if step % args.save_every == 0 or step == args.steps:
            save(args, step)
    say("training finished at step %d" % args.steps)
    sys.exit(args.exit_code_after_done)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoints", required=True, metavar="DIRECTORY", help="where the step directories and `latest` are")
    add("--steps", type=int, default=40, help="the final step (default 40)")
    add("--save-every", type=int, default=10, help="steps between two checkpoints (default 10)")
    add("--step-seconds", type=float, default=0.2, help="how long a step takes (default 0.2)")
    add("--save-seconds", type=float, default=2.0, help="how long rank 0's model state takes to write (default 2)")
    add("--megabytes", type=float, default=4.0, help="size of the model state (default 4)")
    add("--resume", default="file", help="PATH, file, latest or auto (see above; default file)")
    add("--crash-at", type=int, metavar="STEP", help="raise an error at this step")
    add("--hang-at", type=int, metavar="STEP", help="make no more progress from this step on")
    add("--nan-at", type=int, metavar="STEP", help="the loss is nan from this step on")
    add("--once", metavar="FILE", help="the fault strikes only while this file is missing; it is made by the fault")
    add("--on-term", choices=("exit1", "exit0", "ignore", "die"), default="exit1", help="on SIGTERM (default exit1)")
    add("--exit-code-after-done", type=int, default=0, help="exit code after the final step: a crash in the teardown")
    return parser.parse_args()


def say(text):
    if RANK == 0:
        print("[%s] [INFO] [logging.py:107:log_dist] [Rank 0] %s" % (time.strftime("%F %T,000"), text), flush=True)


def report(args, step):
    """DeepSpeed's two lines of progress."""
    lost = args.nan_at is not None and step >= args.nan_at and armed(args)
    loss = "nan" if lost else "%.4f" % (4.0 / (1 + 0.05 * step))
    say("step=%d, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)]" % step)
    if RANK == 0:
        print("steps: %d loss: %s iter time (s): %.3f samples/sec: 8.000" % (step, loss, args.step_seconds), flush=True)


def on_signal(what):
    def handler(number, frame):
        # print is not reentrant, write is.
        os.write(1, b"[rank%d]: received signal %d\n" % (RANK, number))
        if what == "die":
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        elif what != "ignore":
            os._exit(0 if what == "exit0" else 1)

    return handler


def armed(args):
    """May the fault strike in this attempt? With --once only in the first."""
    return args.once is None or not os.path.exists(args.once)


def fault(args, step):
    if step not in (args.crash_at, args.hang_at) or not armed(args):
        return
    if args.once is not None:
        time.sleep(0.5)  # every rank has looked
        with open(args.once, "w"):
            pass
    if args.hang_at == step:
        while True:
            time.sleep(60)
    raise RuntimeError("shape '[8, 4096]' is invalid for input of size 32767")


# -- resuming


def resume(args):
    path = agreed(chosen(args) if RANK == 0 else None)
    if not path:
        say("no checkpoint to load, training from scratch")
        return 0
    say("loading checkpoint from %s" % path)
    load(os.path.join(path, MODEL))
    load(os.path.join(path, OPTIMIZER % RANK))
    step = int(re.search(r"(\d+)/*$", path).group(1))
    say("successfully loaded checkpoint of step %d" % step)
    return step


def chosen(args):
    """The step directory to load, "" for none."""
    rule = args.resume
    if rule == "file":
        named = os.environ.get("CHAINWATCH_RESUME_FILE")
        if named is not None and os.path.exists(named):
            with open(named) as pointer:
                return pointer.read().strip()
        rule = "auto"
    if rule == "latest":
        pointer = os.path.join(args.checkpoints, "latest")
        if not os.path.exists(pointer):
            return ""
        with open(pointer) as named:
            return os.path.join(args.checkpoints, named.read().strip())
    if rule == "auto":
        steps = [int(name[11:]) for name in os.listdir(args.checkpoints) if re.match(r"global_step\d+$", name)]
        return os.path.join(args.checkpoints, "global_step%d" % max(steps)) if steps else ""
    return rule


def agreed(choice):
    """Rank 0's choice, for every rank; nobody goes on before all are there (a rank that starts late would choose anew).

    An abstract Unix socket: it leaves nothing behind, and all nodes of a private cluster are one machine.
    """
    if WORLD == 1:
        return choice
    attempt = [os.environ.get("SLURM_" + name, "") for name in ("CLUSTER_NAME", "JOB_ID", "STEP_ID", "RESTART_COUNT")]
    name = "\0train-" + "-".join(attempt if any(attempt) else [str(os.getppid())])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as meeting:
        meeting.settimeout(120)
        if RANK == 0:
            meeting.bind(name)
            meeting.listen(WORLD)
            others = [meeting.accept()[0] for _ in range(WORLD - 1)]
            for other in others:
                other.sendall(choice.encode() + b"\n")
                other.close()
            return choice
        given_up = time.time() + 120
        while meeting.connect_ex(name):
            if time.time() > given_up:
                raise RuntimeError("[rank%d]: timed out after 120 seconds waiting for rank 0" % RANK)
            time.sleep(0.02)
        with meeting.makefile("rb") as said:
            return said.readline()[:-1].decode()


def load(path):
    """Die of a missing or a cut file with torch.load's own words."""
    with open(path, "rb"):
        pass
    if not torch_zip.is_whole(path):
        raise RuntimeError(
            "PytorchStreamReader failed reading zip archive: failed finding central directory. This is an internal miniz "
            "error. If you are seeing this error, there is a high likelihood that your checkpoint file is corrupted. This "
            "can happen if the checkpoint was not saved properly, was transferred incorrectly, or the file was modified "
            "after saving."
        )


# -- saving


def save(args, step):
    directory = os.path.join(args.checkpoints, "global_step%d" % step)
    model = os.path.join(directory, MODEL)
    count = max(WORLD, int(args.megabytes * 1e6 / 2))
    if RANK == 0:
        os.makedirs(directory, exist_ok=True)
        say("Saving model checkpoint: %s" % model)
        torch_zip.save(model_state(count, step), model, args.save_seconds)
    # DeepSpeed's ranks meet here: nobody writes an optimizer file before rank 0 has written its model state.
    while not torch_zip.is_whole(model):
        time.sleep(0.05)
    torch_zip.save(optimizer_state(count // WORLD), os.path.join(directory, OPTIMIZER % RANK), args.save_seconds / 4)
    if RANK == 0:
        with open(os.path.join(args.checkpoints, "latest"), "w") as pointer:
            pointer.write("global_step%d" % step)
        say("[Torch] Checkpoint global_step%d is ready now!" % step)


def model_state(count, step):
    embed = count // 4
    weights = OrderedDict(
        [
            ("embed.weight", torch_zip.Tensor(embed, "BFloat16Storage")),
            ("layers.weight", torch_zip.Tensor(count - embed, "BFloat16Storage")),
        ]
    )
    return {
        "module": weights,
        "buffer_names": [],
        "optimizer": None,
        "lr_scheduler": None,
        "skipped_steps": 0,
        "global_steps": step,
        "global_samples": step * 8,
        "dp_world_size": WORLD,
        "mp_world_size": 1,
        "ds_config": {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}},
        "ds_version": VERSION,
    }


def optimizer_state(count):
    partition = torch_zip.Tensor(count)
    moments = {"exp_avg": torch_zip.Tensor(count), "exp_avg_sq": torch_zip.Tensor(count)}
    state = {
        "zero_stage": 2,
        "partition_count": [WORLD],
        "group_paddings": [0],
        "single_partition_of_fp32_groups": [partition],
        "base_optimizer_state": {"state": {0: moments}, "param_groups": [{"lr": 0.0001, "params": [0]}]},
        "ds_version": VERSION,
    }
    return {"optimizer_state_dict": state, "ds_config": {}, "ds_version": VERSION}


if __name__ == "__main__":
    main()
