"""The only changes to user data: planned first, never a byte lost, undone by one call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chainwatch.actions import aside
from chainwatch.actions.aside import (
    ASIDE,
    MoveError,
    NothingToUndo,
    mend_links,
    mend_pointer,
    restore,
    set_aside,
    settle,
)
from chainwatch.model.checkpoint import Checkpoint, Status
from chainwatch.store import Store
from tests.store.build import NOW


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    for step in (10, 20):
        (directory / f"global_step{step}").mkdir(parents=True)
        (directory / f"global_step{step}" / "model.pt").write_text(f"weights of {step}")
    (directory / "latest").write_text("global_step20")
    return directory


def checkpoint(path: Path, form: str = "deepspeed", step: int | None = 20) -> Checkpoint:
    return Checkpoint(str(path), step, form, Status.DAMAGED, "cut")


def tree(directory: Path) -> dict[str, str]:
    """Every file below, with its content."""
    return {str(p.relative_to(directory)): p.read_text() for p in sorted(directory.rglob("*")) if p.is_file()}


def states(store: Store) -> list[str]:
    return [m.state for m in store.moves()]


def test_a_directory_is_moved_aside_and_comes_back_as_it_was(store: Store, run: Path) -> None:
    before = tree(run)
    (move,) = set_aside(store, checkpoint(run / "global_step20"), "llama", "cut", NOW)
    assert not (run / "global_step20").exists()
    assert Path(move.target) == run / ASIDE / "global_step20"
    assert sorted(tree(run).values()) == sorted(before.values())
    assert states(store) == ["made"]
    restore(store, str(run / "global_step20"), NOW)
    assert tree(run) == before
    assert states(store) == ["undone"]


def test_what_is_set_aside_is_hidden_from_every_glob(store: Store, run: Path) -> None:
    set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    assert list(run.glob("*step*")) == [run / "global_step10"]
    assert not [name for name in os.listdir(run) if "20" in name]


def test_a_single_file_is_a_checkpoint_too(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "epoch=3.ckpt"
    file.write_bytes(b"x")
    set_aside(store, checkpoint(file), None, "cut", NOW)
    assert not file.exists()
    restore(store, str(file), NOW)
    assert file.read_bytes() == b"x"


def test_all_files_of_a_prefix_move_together_and_no_neighbour(store: Store, tmp_path: Path) -> None:
    names = ["ckpt-20.index", "ckpt-20.data-00000-of-00002", "ckpt-20.data-00001-of-00002"]
    for name in [*names, "ckpt-200.index", "ckpt-2.index", "ckpt-20x"]:
        (tmp_path / name).write_text(name)
    moves = set_aside(store, checkpoint(tmp_path / "ckpt-20"), None, "cut", NOW)
    assert sorted(Path(m.path).name for m in moves) == sorted(names)
    assert sorted(p.name for p in tmp_path.glob("ckpt-*")) == ["ckpt-2.index", "ckpt-200.index", "ckpt-20x"]
    restore(store, str(tmp_path / "ckpt-20"), NOW)
    assert all((tmp_path / name).read_text() == name for name in names)


def test_a_prefix_with_glob_characters_means_itself(store: Store, tmp_path: Path) -> None:
    for name in ("a[1]-20.index", "a1-20.index"):
        (tmp_path / name).write_text(name)
    set_aside(store, checkpoint(tmp_path / "a[1]-20"), None, "cut", NOW)
    assert [p.name for p in tmp_path.glob("*.index")] == ["a1-20.index"]


def test_a_step_that_is_saved_and_damaged_again_lies_beside_the_first(store: Store, run: Path) -> None:
    set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    (run / "global_step20").mkdir()
    (run / "global_step20" / "model.pt").write_text("second")
    set_aside(store, checkpoint(run / "global_step20"), None, "cut again", NOW)
    assert sorted(os.listdir(run / ASIDE)) == ["global_step20", "global_step20.1"]
    restore(store, str(run / "global_step20"), NOW)
    assert (run / "global_step20" / "model.pt").read_text() == "second"
    with pytest.raises(MoveError, match="overwritten"):
        restore(store, str(run / "global_step20"), NOW)


def test_restoring_never_overwrites(store: Store, run: Path) -> None:
    set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    (run / "global_step20").mkdir()
    with pytest.raises(MoveError, match="exists again"):
        restore(store, str(run / "global_step20"), NOW)
    assert (run / ASIDE / "global_step20" / "model.pt").read_text() == "weights of 20"
    assert states(store) == ["made"]


def test_what_is_gone_is_not_moved(store: Store, run: Path) -> None:
    with pytest.raises(MoveError, match="not there any more"):
        set_aside(store, checkpoint(run / "global_step99"), None, "cut", NOW)
    assert states(store) == []


def test_where_nothing_was_changed_nothing_is_undone(store: Store, run: Path) -> None:
    with pytest.raises(NothingToUndo):
        restore(store, str(run / "global_step10"), NOW)


def test_a_file_system_that_refuses_is_told_and_journaled(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuses)
    with pytest.raises(MoveError, match="Permission denied"):
        set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    assert states(store) == ["undone"]
    assert (run / "global_step20").exists()


class Died(BaseException):
    """The process is gone at this very line."""


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_around_the_rename_is_settled_by_looking(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    real = os.rename

    def dies(source: str, target: str) -> None:
        if after:
            real(source, target)
        raise Died

    monkeypatch.setattr(os, "rename", dies)
    with pytest.raises(Died):
        set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    monkeypatch.undo()
    assert states(store) == ["planned"]
    settle(store, NOW)
    assert states(store) == ["made" if after else "undone"]
    assert (run / "global_step20").exists() is not after
    if after:
        restore(store, str(run / "global_step20"), NOW)
    assert tree(run / "global_step20") == {"model.pt": "weights of 20"}


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_around_the_mending_of_a_pointer_is_settled_by_looking(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    real = os.replace

    def dies(source: str, target: str) -> None:
        if after:
            real(source, target)
        raise Died

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(Died):
        mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "why", NOW)
    monkeypatch.undo()
    settle(store, NOW)
    assert states(store) == ["made" if after else "undone"]
    assert (run / "latest").read_text() == ("global_step10" if after else "global_step20")


def test_a_storage_that_cannot_tell_leaves_the_plan_open(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.plan_move(None, "set_aside", str(run / "global_step20"), str(run / ASIDE / "x"), "", "cut", NOW)

    def stale(path: str) -> os.stat_result:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "lstat", stale)
    assert settle(store, NOW) == []
    monkeypatch.undo()
    assert states(store) == ["planned"]
    settle(store, NOW)
    assert states(store) == ["undone"]


# -- pointers


@pytest.mark.parametrize(
    ("form", "name", "content"),
    [
        ("deepspeed", "latest", "global_step10"),
        ("deepspeed_universal", "latest_universal", "global_step10"),
        ("megatron", "latest_checkpointed_iteration.txt", "10"),
        ("nanotron", "latest.txt", "10"),
    ],
)
def test_each_frameworks_pointer_is_mended_and_comes_back(
    store: Store, run: Path, form: str, name: str, content: str
) -> None:
    pointer = run / name
    pointer.write_text("something else\n")
    pointer.chmod(0o640)
    newest = checkpoint(run / "global_step10", form, 10)
    assert mend_pointer(store, str(run), newest, "llama", "why", NOW) is not None
    assert pointer.read_text() == content
    assert pointer.stat().st_mode & 0o777 == 0o640
    assert mend_pointer(store, str(run), newest, "llama", "why", NOW) is None
    restore(store, str(pointer), NOW)
    assert pointer.read_text() == "something else\n"
    assert pointer.stat().st_mode & 0o777 == 0o640


def test_a_pointer_that_was_not_there_goes_again(store: Store, run: Path) -> None:
    (run / "latest").unlink()
    mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "why", NOW)
    restore(store, str(run / "latest"), NOW)
    assert not (run / "latest").exists()


def test_a_format_without_a_pointer_has_none_mended(store: Store, run: Path) -> None:
    assert mend_pointer(store, str(run), checkpoint(run / "global_step10", "hf_trainer", 10), None, "why", NOW) is None
    assert states(store) == []


def test_a_pointer_that_was_changed_since_is_left_as_it_is(store: Store, run: Path) -> None:
    mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "why", NOW)
    (run / "latest").write_text("global_step30")
    with pytest.raises(MoveError, match="changed since"):
        restore(store, str(run / "latest"), NOW)
    assert (run / "latest").read_text() == "global_step30"


def test_two_mendings_are_undone_to_the_first_content(store: Store, run: Path) -> None:
    mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "why", NOW)
    mend_pointer(store, str(run), checkpoint(run / "global_step20", step=20), None, "why", NOW)
    (run / "latest").write_text("global_step20")
    restore(store, str(run / "latest"), NOW)
    assert (run / "latest").read_text() == "global_step20"


def test_a_pointer_that_is_a_link_or_no_text_stays_as_it_is(store: Store, run: Path) -> None:
    newest = checkpoint(run / "global_step10", step=10)
    (run / "latest").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MoveError, match="no text"):
        mend_pointer(store, str(run), newest, None, "why", NOW)
    (run / "latest").unlink()
    (run / "other").write_text("global_step20")
    (run / "latest").symlink_to("other")
    with pytest.raises(MoveError, match="symbolic link"):
        mend_pointer(store, str(run), newest, None, "why", NOW)
    assert (run / "other").read_text() == "global_step20"
    assert states(store) == []


def test_a_failed_write_leaves_no_temporary_file(store: Store, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(os.listdir(run))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MoveError, match="No space left"):
        mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "why", NOW)
    assert sorted(os.listdir(run)) == before
    assert aside.ASIDE not in before


def test_with_a_checkpoint_comes_back_what_was_mended_because_of_it(store: Store, run: Path) -> None:
    before = tree(run)
    set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "quarantine", NOW)
    assert (run / "latest").read_text() == "global_step10"
    assert len(restore(store, str(run / "global_step20"), NOW)) == 2
    assert tree(run) == before
    assert states(store) == ["undone", "undone"]


def test_a_pointer_that_somebody_changed_since_does_not_keep_a_checkpoint_from_coming_back(
    store: Store, run: Path
) -> None:
    set_aside(store, checkpoint(run / "global_step20"), None, "cut", NOW)
    mend_pointer(store, str(run), checkpoint(run / "global_step10", step=10), None, "quarantine", NOW)
    (run / "latest").write_text("global_step15")
    restore(store, str(run / "global_step20"), NOW)
    assert (run / "global_step20").exists()
    assert (run / "latest").read_text() == "global_step15"


def test_the_pointer_of_tensorflow_names_the_newest_and_keeps_its_list(store: Store, tmp_path: Path) -> None:
    text = (
        'model_checkpoint_path: "ckpt-3"\nall_model_checkpoint_paths: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-3"\n'
    )
    for name in ("ckpt-2.index", "ckpt-3.index"):
        (tmp_path / name).write_text("x")
    (tmp_path / "checkpoint").write_text(text)
    set_aside(store, checkpoint(tmp_path / "ckpt-3", "tf", 3), None, "cut", NOW)
    newest = checkpoint(tmp_path / "ckpt-2", "tf", 2)
    assert mend_pointer(store, str(tmp_path), newest, None, "quarantine", NOW) is not None
    assert (tmp_path / "checkpoint").read_text() == text.replace('path: "ckpt-3"', 'path: "ckpt-2"', 1).strip()
    assert mend_pointer(store, str(tmp_path), newest, None, "quarantine", NOW) is None
    restore(store, str(tmp_path / "ckpt-3"), NOW)
    assert (tmp_path / "checkpoint").read_text() == text


def test_a_link_whose_checkpoint_was_moved_aside_leads_to_the_newest_and_back(store: Store, tmp_path: Path) -> None:
    for step in (15, 20):
        (tmp_path / f"step={step}.ckpt").write_text(str(step))
    (tmp_path / "last.ckpt").symlink_to("step=20.ckpt")
    (tmp_path / "gone.ckpt").symlink_to("step=5.ckpt")
    set_aside(store, checkpoint(tmp_path / "step=20.ckpt", "lightning"), None, "cut", NOW)
    newest = checkpoint(tmp_path / "step=15.ckpt", "lightning", 15)
    assert [m.kind for m in mend_links(store, str(tmp_path), newest, None, "quarantine", NOW)] == ["link"]
    assert (tmp_path / "last.ckpt").read_text() == "15"
    assert os.readlink(tmp_path / "gone.ckpt") == "step=5.ckpt", "it led nowhere before"
    restore(store, str(tmp_path / "step=20.ckpt"), NOW)
    assert (tmp_path / "last.ckpt").read_text() == "20"


def test_the_shards_of_an_index_move_with_it(store: Store, tmp_path: Path) -> None:
    names = ("m-3.weights.json", "m-3_00000.weights.h5", "m-3_00001.weights.h5", "m-30_00000.weights.h5")
    place = tmp_path / "saved"
    place.mkdir()
    for name in names:
        (place / name).write_text(name)
    before = tree(place)
    set_aside(store, checkpoint(place / "m-3.weights.json", "keras", 3), None, "cut", NOW)
    assert [each.name for each in place.iterdir() if each.is_file()] == ["m-30_00000.weights.h5"]
    restore(store, str(place / "m-3.weights.json"), NOW)
    assert tree(place) == before
