"""The training script of the demo: what it leaves behind is what DeepSpeed and torch leave behind."""

from __future__ import annotations

import ast
import os
import pickletools
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from chainwatch.checkpoints import Status, newest_intact, verify
from chainwatch.checkpoints.nan import count_nans

DEV = Path(__file__).parents[2] / "dev"
MODEL = "mp_rank_00_model_states.pt"
TORCH_SAYS = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"


def ranks(run: Path, *options: str, world: int = 2, env: dict[str, str] | None = None) -> list[subprocess.Popen[str]]:
    """Start every rank of one attempt, as srun would."""
    argv = [sys.executable, str(DEV / "train.py"), f"--checkpoints={run}", "--megabytes=0.5", "--step-seconds=0.01"]
    return [
        subprocess.Popen(
            [*argv, *options],
            env={**os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(world), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]


def train(
    run: Path, *options: str, world: int = 2, env: dict[str, str] | None = None, save_seconds: str = "0.1"
) -> tuple[list[int], str]:
    """One whole attempt: the ranks' exit codes, and what all printed."""
    started = ranks(run, f"--save-seconds={save_seconds}", *options, world=world, env=env)
    output = [process.communicate(timeout=60)[0] for process in started]
    return [process.returncode for process in started], "".join(output)


def cut_while_saving(run: Path, step: int) -> None:
    """An attempt that gets SIGTERM while rank 0 writes the model state of `step`, as in a preemption."""
    started = ranks(run, "--steps=100", "--save-every=4", "--save-seconds=5", "--resume=latest")
    model = run / f"global_step{step}" / MODEL
    deadline = time.monotonic() + 30
    while not (model.exists() and model.stat().st_size > 100_000):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for process in started:
        process.terminate()
    for process in started:
        process.communicate(timeout=10)
        assert process.returncode == 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory in which global_step4 is intact."""
    directory = tmp_path / "checkpoints"
    codes, _ = train(directory, "--steps=4", "--save-every=4")
    assert codes == [0, 0]
    return directory


def test_a_checkpoint_is_what_deepspeed_writes_and_every_byte_of_it_checks(run: Path) -> None:
    names = sorted(path.name for path in (run / "global_step4").iterdir())
    assert names == [*(f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)), MODEL]
    assert (run / "latest").read_text() == "global_step4"
    report = verify(str(run), deep=True)
    assert report.format == "deepspeed"
    assert [(found.step, found.status, found.unverifiable) for found in report.checkpoints] == [
        (4, Status.INTACT, False)
    ]
    assert not any(tensor.nan for tensor in count_nans(str(run / "global_step4")))


def test_a_file_is_a_zip_as_torch_lays_it_out(run: Path) -> None:
    path = run / "global_step4" / MODEL
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = [entry.filename.split("/", 1)[1] for entry in archive.infolist()]
        assert names[:4] == ["data.pkl", ".format_version", ".storage_alignment", "byteorder"]
        assert names[4:] == ["data/0", "data/1", "version", ".data/serialization_id"]
        assert {(entry.compress_type, entry.flag_bits) for entry in archive.infolist()} == {(0, 0x0808)}
        described = archive.read("mp_rank_00_model_states/data.pkl")
        for entry in archive.infolist():
            with archive.open(entry) as record:
                assert record._orig_compress_start % 64 == 0  # type: ignore[attr-defined]
    opcodes = [opcode.name for opcode, _, _ in pickletools.genops(described)]
    assert opcodes[0] == "PROTO"
    assert opcodes[-1] == "STOP"
    assert opcodes.count("BINPERSID") == 2
    assert path.read_bytes()[-98:-94] == b"PK\x06\x06", "the zip64 end is always there"


def test_killed_while_saving_it_leaves_a_cut_model_state_and_no_optimizer_file(run: Path) -> None:
    cut_while_saving(run, step=8)
    assert [path.name for path in (run / "global_step8").iterdir()] == [MODEL]
    assert (run / "latest").read_text() == "global_step4"
    found = newest_intact(str(run))
    assert found is not None
    assert found.step == 4


def test_the_naive_resume_picks_the_highest_number_and_dies_as_torch_does(run: Path) -> None:
    cut_while_saving(run, step=8)
    codes, output = train(run, "--steps=12", "--resume=auto")
    assert codes == [1, 1]
    assert TORCH_SAYS in output
    codes, output = train(run, "--steps=12", "--save-every=4", f"--resume={run}/global_step4")
    assert codes == [0, 0]
    assert "training finished at step 12" in output
    assert [found.step for found in verify(str(run)).checkpoints if found.intact] == [4, 8, 12], "8 is written anew"


def test_the_resume_file_decides_where_there_is_one(run: Path, tmp_path: Path) -> None:
    train(run, "--steps=8", "--save-every=4")
    pointer = tmp_path / "pointer"
    for content, said in (
        (f"{run}/global_step4\n", "loaded checkpoint of step 4"),
        ("", "no checkpoint to load, training from scratch"),
    ):
        pointer.write_text(content)
        codes, output = train(run, "--steps=8", env={"CHAINWATCH_RESUME_FILE": str(pointer)})
        assert codes == [0, 0]
        assert said in output
    codes, output = train(run, "--steps=8")
    assert "loaded checkpoint of step 8" in output, "without a resume file it is naive"


def test_a_missing_optimizer_file_ends_the_job_too(run: Path) -> None:
    (run / "global_step4" / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    codes, output = train(run, "--steps=8", "--save-every=100", "--resume=latest")
    assert codes[1] == 1
    assert "FileNotFoundError: [Errno 2] No such file or directory" in output


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--crash-at=3",), 1, "RuntimeError: shape '[8, 4096]' is invalid"),
        (("--nan-at=3",), 0, "steps: 3 loss: nan iter time"),
        (("--exit-code-after-done=134",), 134, "training finished at step 4"),
    ],
)
def test_faults_on_request(tmp_path: Path, options: tuple[str, ...], code: int, said: str) -> None:
    codes, output = train(tmp_path / "run", "--steps=4", "--save-every=100", *options, world=1)
    assert codes == [code]
    assert said in output
    assert "step=2, skipped=0, lr=" in output


def test_a_fault_that_strikes_once_lets_the_next_attempt_through(tmp_path: Path) -> None:
    options = ("--steps=4", "--crash-at=3", f"--once={tmp_path}/struck")
    assert train(tmp_path / "run", *options)[0] == [1, 1]
    assert train(tmp_path / "run", *options)[0] == [0, 0]


@pytest.mark.parametrize(("choice", "code"), [("exit1", 1), ("exit0", 0), ("die", -15), ("ignore", -9)])
def test_it_takes_a_sigterm_as_it_was_told(tmp_path: Path, choice: str, code: int) -> None:
    (process,) = ranks(tmp_path / "run", "--steps=9999", "--hang-at=2", f"--on-term={choice}", world=1)
    assert process.stdout is not None
    while "step=1," not in process.stdout.readline():
        pass
    time.sleep(0.2)
    process.terminate()
    try:
        process.wait(timeout=1 if choice == "ignore" else 10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert "[rank0]: received signal 15" in process.stdout.read()
    process.stdout.close()
    assert process.returncode == code


@pytest.mark.parametrize("name", ["train.py", "torch_zip.py"])
def test_it_stays_within_python_3_8_and_the_standard_library(name: str) -> None:
    tree = ast.parse((DEV / name).read_text(), feature_version=(3, 8))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names | {"torch_zip"}
