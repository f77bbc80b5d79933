#!/usr/bin/env python3
"""A training run without torch: several ranks, slow saves, real checkpoints. For the demo and the tests.

It writes what DeepSpeed writes with ZeRO stage 2 and bf16: `global_stepN/mp_rank_00_model_states.pt` by rank 0 and
`bf16_zero_pp_rank_R_mp_rank_00_optim_states.pt` by every rank, in torch.save's zip format (`torch.load` reads them), then
`latest`. One task of srun is one rank (SLURM_PROCID, SLURM_NTASKS). Python 3.8 and the standard library are enough.

How it resumes: `--resume PATH`, the file that $CHAINWATCH_RESUME_FILE names, or `--resume auto`, which is as naive as many
scripts are: the step directory with the highest number. From a damaged one it dies as torch does, with exit code 1.
"""

import argparse
import io
import os
import pickle
import re
import signal
import struct
import sys
import time
import types
import zlib
from collections import OrderedDict

RANK = int(os.environ.get("SLURM_PROCID", "0"))
WORLD = int(os.environ.get("SLURM_NTASKS", "1"))
ALIGN = 64


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, on_signal(args))
    os.makedirs(args.checkpoints, exist_ok=True)
    start = resume(args)
    say("step %d of %d: training begins, world size %d" % (start, args.steps, WORLD))
    for step in range(start + 1, args.steps + 1):
        time.sleep(args.step_seconds)
        faults(args, step)
        loss = 4.0 / (1 + 0.05 * step)
        if RANK == 0:
            print(
                "step: %d loss: %.4f iter time (s): %.3f samples/sec: 8.0" % (step, loss, args.step_seconds), flush=True
            )
        if step % args.save_every == 0 or step == args.steps:
            save(args, step)
    say("training finished at step %d" % args.steps)
    sys.exit(args.exit_code_after_done)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", required=True, help="run directory")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--step-seconds", type=float, default=0.2)
    parser.add_argument("--save-seconds", type=float, default=2.0, help="how long rank 0's model state takes to write")
    parser.add_argument("--megabytes", type=float, default=4.0, help="size of the model state")
    parser.add_argument(
        "--resume", default="file", help="PATH, `auto` (highest number), `file` ($CHAINWATCH_RESUME_FILE)"
    )
    parser.add_argument("--crash-at", type=int, help="raise at this step")
    parser.add_argument("--hang-at", type=int, help="stop working at this step")
    parser.add_argument("--nan-at", type=int, help="lose numerical sense at this step")
    parser.add_argument("--on-term", choices=("exit1", "exit0", "ignore", "die"), default="exit1")
    parser.add_argument("--exit-code-after-done", type=int, default=0)
    return parser.parse_args()


def say(text):
    if RANK == 0:
        print(text, flush=True)


def on_signal(args):
    def handler(number, frame):
        print("[rank%d]: received signal %d, leaving" % (RANK, number), flush=True)
        if args.on_term == "ignore":
            return
        if args.on_term == "die":
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0 if args.on_term == "exit0" else 1)

    return handler


def faults(args, step):
    if args.crash_at == step:
        raise RuntimeError("shape '[8, 4096]' is invalid for input of size 32767")
    if args.nan_at == step:
        raise FloatingPointError("loss is nan at step %d" % step)
    if args.hang_at == step:
        while True:
            time.sleep(60)


# -- resuming


def resume(args):
    path = args.resume
    if path == "file":
        pointer = os.environ.get("CHAINWATCH_RESUME_FILE", "")
        path = "auto"
        if pointer and os.path.exists(pointer):
            with open(pointer) as f:
                path = f.read().strip()
    if path == "auto":
        found = [
            (int(m.group(1)), m.group(0))
            for m in map(re.compile(r"global_step(\d+)$").match, os.listdir(args.checkpoints))
            if m
        ]
        path = os.path.join(args.checkpoints, max(found)[1]) if found else ""
    if not path:
        say("no checkpoint: starting from scratch")
        return 0
    say("loading checkpoint from %s" % path)
    files = [os.path.join(path, "mp_rank_00_model_states.pt"), optimizer_file(path)]
    for name in files:
        check(name)
    step = int(re.search(r"(\d+)/?$", path).group(1))
    say("successfully loaded checkpoint at step %d" % step)
    return step


def check(name):
    """Die as torch.load does on a missing or cut file."""
    if not os.path.exists(name):
        raise FileNotFoundError(2, "No such file or directory", name)
    with open(name, "rb") as f:
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(max(0, size - 22))
        if f.read(4) != b"PK\x05\x06":
            raise RuntimeError("PytorchStreamReader failed reading zip archive: failed finding central directory")


# -- saving


def optimizer_file(directory):
    return os.path.join(directory, "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt" % RANK)


def save(args, step):
    directory = os.path.join(args.checkpoints, "global_step%d" % step)
    os.makedirs(directory, exist_ok=True)
    count = max(1, int(args.megabytes * 1e6 / 4))
    say("[rank0] saving model checkpoint: %s" % directory)
    if RANK == 0:
        state = OrderedDict([("embed.weight", Tensor(count // 4)), ("layers.weight", Tensor(count - count // 4))])
        content = {
            "module": state,
            "dp_world_size": WORLD,
            "mp_world_size": 1,
            "global_steps": step,
            "ds_version": "0.19.8",
        }
        torch_save(content, os.path.join(directory, "mp_rank_00_model_states.pt"), args.save_seconds)
    shard = count // WORLD
    content = {
        "optimizer_state_dict": {"partition_count": [WORLD], "exp_avg": Tensor(shard), "step": step},
        "ds_version": "0.19.8",
    }
    torch_save(content, optimizer_file(directory), args.save_seconds / 4)
    if RANK == 0:
        with open(os.path.join(args.checkpoints, "latest"), "w") as f:
            f.write("global_step%d" % step)
    say("[rank0] saved checkpoint %s" % directory)


class Tensor(object):
    """A float32 tensor of `count` elements, its bytes made up."""

    def __init__(self, count):
        self.count = count


class Stub(object):
    """Stands for a storage while it is pickled."""

    def __init__(self, key, count):
        self.key, self.count = key, count


def torch_modules():
    """Names that data.pkl refers to; nothing of torch is needed to write them."""
    torch = types.ModuleType("torch")
    utils = types.ModuleType("torch._utils")

    def _rebuild_tensor_v2():
        raise NotImplementedError

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    sys.modules.setdefault("torch", torch)
    sys.modules.setdefault("torch._utils", utils)
    return sys.modules["torch"], sys.modules["torch._utils"]


def torch_save(content, path, seconds):
    """torch.save's zip format: stored records, 64-byte aligned, data descriptors, zip64 end, written front to back."""
    torch, utils = torch_modules()
    storages = []

    class Pickler(pickle._Pickler):
        def persistent_id(self, item):
            return ("storage", torch.FloatStorage, item.key, "cpu", item.count) if isinstance(item, Stub) else None

        def reducer_override(self, item):
            return NotImplemented

        dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012 - as the base class has it

        def save_tensor(self, item):
            key = str(len(storages))
            storages.append(item.count)
            arguments_ = (Stub(key, item.count), 0, (item.count,), (1,), False, OrderedDict())
            self.save_reduce(utils._rebuild_tensor_v2, arguments_, obj=item)

        dispatch[Tensor] = save_tensor

    out = io.BytesIO()
    Pickler(out, protocol=2).dump(content)
    stem = os.path.splitext(os.path.basename(path))[0]
    bytes_in_all = sum(storages) * 4 or 1
    with open(path, "wb") as f:
        records = []
        for name, payload in (
            [
                ("data.pkl", out.getvalue()),
                (".format_version", b"1"),
                (".storage_alignment", b"64"),
                ("byteorder", b"little"),
            ]
            + [("data/%d" % i, count) for i, count in enumerate(storages)]
            + [("version", b"3\n"), (".data/serialization_id", b"%040d" % zlib.crc32(out.getvalue()))]
        ):
            records.append(write_record(f, "%s/%s" % (stem, name), payload, seconds / bytes_in_all))
        write_end(f, records)


def write_record(f, name, payload, seconds_per_byte):
    encoded = name.encode()
    offset = f.tell()
    padding = -(offset + 30 + len(encoded) + 4) % ALIGN
    extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    f.write(
        struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 0, 0x0808, 0, 0, 0, 0, 0, 0, len(encoded), len(extra))
        + encoded
        + extra
    )
    if isinstance(payload, bytes):
        f.write(payload)
        size, crc = len(payload), zlib.crc32(payload)
    else:
        size, crc = payload * 4, 0
        block = os.urandom(1 << 16)
        left = size
        while left:
            piece = block[: min(left, len(block))]
            f.write(piece)
            f.flush()
            crc = zlib.crc32(piece, crc)
            left -= len(piece)
            time.sleep(len(piece) * seconds_per_byte)
    f.write(struct.pack("<4sIII", b"PK\x07\x08", crc, size, size))
    return encoded, offset, size, crc


def write_end(f, records):
    directory = f.tell()
    for encoded, offset, size, crc in records:
        head = struct.pack(
            "<4sHHHHHHIIIHHHHHII",
            b"PK\x01\x02",
            0,
            0,
            0x0808,
            0,
            0,
            0,
            crc,
            size,
            size,
            len(encoded),
            0,
            0,
            0,
            0,
            0,
            offset,
        )
        f.write(head + encoded)
    end = f.tell()
    size = end - directory
    f.write(struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 30, 45, 0, 0, len(records), len(records), size, directory))
    f.write(struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1))
    f.write(struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(records), len(records), size, directory, 0))
    f.flush()
    os.fsync(f.fileno())


if __name__ == "__main__":
    main()
