"""A parallel program whose ranks wait for each other at each step, as collectives do. Its ranks share one machine.

python lockstep.py DIRECTORY STEP_SECONDS [EVALUATE_EVERY EVALUATE_SECONDS]
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time

RANK, WORLD = int(os.environ.get("SLURM_PROCID", "0")), int(os.environ.get("SLURM_NTASKS", "1"))
directory, pause = sys.argv[1], float(sys.argv[2])
every, evaluates = (int(sys.argv[3]), float(sys.argv[4])) if len(sys.argv) > 3 else (0, 0.0)
os.makedirs(directory, exist_ok=True)
board = os.open(f"{directory}/{os.environ['SLURM_JOB_ID']}", os.O_RDWR | os.O_CREAT)
os.ftruncate(board, 8 * WORLD)
shared = mmap.mmap(board, 8 * WORLD)
step = 0
while True:
    step += 1
    time.sleep(pause)
    struct.pack_into("q", shared, 8 * RANK, step)
    while min(struct.unpack_from(f"{WORLD}q", shared)) < step:
        time.sleep(0.02)
    if RANK == 0:
        print(f"step: {step} loss: {4 / (1 + step):.4f}", flush=True)
    if every and step % every == 0:
        time.sleep(evaluates)
