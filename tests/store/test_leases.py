from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from chainwatch.model.chain import LeaveAlone
from chainwatch.store import LeaseHeld, LeaseLost, Store, open_store
from chainwatch.store.liveness import kernel, pid_of, started, surely_dead
from tests.store.build import MINUTE, NOW, record


def test_a_second_owner_is_told_who_has_the_lease_and_until_when(store: Store) -> None:
    store.acquire_lease(f"here:{os.getpid()}", MINUTE, NOW)
    with pytest.raises(LeaseHeld) as refused:
        store.acquire_lease("there:1", MINUTE, NOW)
    assert refused.value.holder == f"here:{os.getpid()}"
    assert refused.value.until == NOW + MINUTE
    assert f"here:{os.getpid()}" in str(refused.value)


def test_a_lease_that_ran_out_is_taken_with_the_next_epoch(store: Store) -> None:
    first = store.acquire_lease("here:1", MINUTE, NOW)
    second = store.acquire_lease("there:1", MINUTE, NOW + MINUTE)
    assert second.epoch == first.epoch + 1
    assert store.lease() == second


def test_whoever_was_overtaken_commits_nothing(store: Store) -> None:
    store.add_chain(record())
    first = store.acquire_lease("here:1", MINUTE, NOW)
    second = store.acquire_lease("there:1", MINUTE, NOW + MINUTE)
    with pytest.raises(LeaseLost, match="there:1 has it now"), store.transaction(first):
        raise AssertionError("the body must not run")
    with pytest.raises(LeaseLost):
        store.renew_lease(first, MINUTE, NOW + MINUTE)
    store.release_lease(first)
    assert store.lease() == second, "a lost lease cannot be given back"


def test_the_check_and_what_it_guards_are_one_transaction(store: Store, database: str | None, tmp_path: Path) -> None:
    """Somebody who takes the lease meanwhile waits for the commit, so nothing is written under a lost lease."""
    store.add_chain(record())
    lease = store.acquire_lease("here:1", MINUTE, NOW)
    context = get_context("spawn")
    go, taken = context.Event(), context.Event()
    thief = context.Process(target=_take, args=(tmp_path / "state", database, go, taken))
    thief.start()
    assert go.wait(30)
    with store.transaction(lease):
        go.clear()
        assert not taken.wait(0.5), "the lease was taken while a transaction under it was open"
        store.update_chain("llama", step=1)
    assert taken.wait(30)
    thief.join(30)
    with pytest.raises(LeaseLost), store.transaction(lease):
        pass
    found = store.chain("llama")
    assert found is not None
    assert found.step == 1


def _take(state: Path, database: str | None, go: object, taken: object) -> None:
    store = open_store(state, database)
    go.set()  # type: ignore[attr-defined]
    while go.is_set():  # type: ignore[attr-defined]
        time.sleep(0.01)
    store.acquire_lease("there:1", MINUTE, NOW + MINUTE)
    taken.set()  # type: ignore[attr-defined]


def test_a_lease_that_was_given_back_is_free_at_once(store: Store) -> None:
    first = store.acquire_lease("here:1", MINUTE, NOW)
    store.release_lease(first)
    assert store.lease() is None
    assert store.acquire_lease("there:1", MINUTE, NOW).epoch == first.epoch + 1


def test_renewing_extends_it_also_late_if_nobody_took_it(store: Store) -> None:
    first = store.acquire_lease("here:1", MINUTE, NOW)
    renewed = store.renew_lease(first, MINUTE, NOW + 5 * MINUTE)
    assert renewed.until == NOW + 6 * MINUTE
    assert store.lease() == renewed


def test_the_lease_of_a_dead_process_of_this_machine_is_taken_at_once(store: Store) -> None:
    holder = _dead_owner(store)
    assert store.acquire_lease("here:2", MINUTE, NOW).epoch == 2
    assert holder != "here:2"


def _dead_owner(store: Store) -> str:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = f"here:{sleeper.pid}"
    store.acquire_lease(holder, MINUTE, NOW)
    with pytest.raises(LeaseHeld):
        store.acquire_lease("here:2", MINUTE, NOW)
    sleeper.kill()
    sleeper.communicate()
    return holder


def test_the_question_whether_the_owner_is_dead_can_be_answered_from_outside(store: Store) -> None:
    asked: list[str] = []

    def alive(holder: str) -> bool:
        asked.append(holder)
        return False

    store.acquire_lease("far:1", MINUTE, NOW)
    with pytest.raises(LeaseHeld):
        store.acquire_lease("here:2", MINUTE, NOW, force_dead_check=alive)
    store.acquire_lease("here:2", MINUTE, NOW, force_dead_check=lambda _: True)
    assert asked == ["far:1"]


def test_only_a_pid_of_this_kernel_and_namespace_can_be_dead() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert surely_dead(f"h:{gone.pid}", kernel(), "1")
    assert not surely_dead(f"h:{gone.pid}", "another boot/pid:[1]", "1"), "another machine, container or boot"
    assert not surely_dead(f"h:{gone.pid}", kernel(), ""), "its start was not known"
    assert not surely_dead("h:x", kernel(), "1"), "no pid"
    me = os.getpid()
    assert not surely_dead(f"h:{me}", kernel(), started(me))
    assert surely_dead(f"h:{me}", kernel(), "1"), "the pid is another process now"


def test_a_process_that_only_waits_to_be_reaped_is_dead() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 30
    while started(zombie.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert surely_dead(f"h:{zombie.pid}", kernel(), "1")
    zombie.wait()


@pytest.mark.parametrize(("holder", "pid"), [("h:12", 12), ("a:b:3", 3), ("h", None), ("", None), ("h:-1", None)])
def test_the_pid_is_what_follows_the_last_colon(holder: str, pid: int | None) -> None:
    assert pid_of(holder) == pid


def test_of_many_processes_that_want_the_lease_one_gets_it(tmp_path: Path, database: str | None) -> None:
    context = get_context("spawn")
    with context.Pool(3) as pool:
        results = pool.starmap(_race, [(tmp_path / "state", database, n) for n in range(6)], chunksize=1)
    assert sorted(results) == ["held"] * 5 + ["taken"]


def _race(state: Path, database: str | None, number: int) -> str:
    store = open_store(state, database)  # the first ones also race to make the schema
    try:
        store.acquire_lease(f"host:{number}", MINUTE, NOW, force_dead_check=lambda _: False)
        return "taken"
    except LeaseHeld:
        return "held"
    finally:
        store.close()


def test_every_read_and_write_inside_is_part_of_the_transaction(store: Store) -> None:
    store.add_chain(record())
    with suppress(RuntimeError), store.transaction():
        store.update_chain("llama", step=1)
        found = store.chain("llama")
        assert found is not None
        assert found.step == 1
        store.add_decision("llama", None, LeaveAlone("x"), NOW, "x")
        raise RuntimeError
    assert store.chain("llama") == record()
    assert store.decisions("llama") == []


def test_an_inner_error_that_is_handled_undoes_only_the_inner_part(store: Store) -> None:
    store.add_chain(record())
    with store.transaction():
        store.update_chain("llama", step=1)
        with suppress(RuntimeError), store.transaction():
            store.update_chain("llama", step=2)
            raise RuntimeError
    found = store.chain("llama")
    assert found is not None
    assert found.step == 1


def test_a_nested_transaction_checks_its_lease_too(store: Store) -> None:
    store.add_chain(record())
    first = store.acquire_lease("here:1", MINUTE, NOW)
    store.acquire_lease("there:1", MINUTE, NOW + MINUTE)
    with store.transaction(), pytest.raises(LeaseLost), store.transaction(first):
        raise AssertionError("the body must not run")
