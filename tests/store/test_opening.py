"""Opening, migrating, and everything that can be wrong with a database."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from chainwatch.store import NewerSchema, Store, StoreError, open_store
from chainwatch.store import store as store_module
from chainwatch.store.migrate import MIGRATIONS, migrate
from chainwatch.store.schema import HEAD, metadata
from tests.store.build import MINUTE, NOW, attempt, record

DUMPS = sorted((Path(__file__).parent / "data").glob("*.sql"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "chainwatch", disk], capture_output=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def run(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that can be killed; it prints `ready` when it got there."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def kill_when_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_the_state_directory_and_its_files_are_private(state: Path) -> None:
    os.umask(previous := os.umask(0))
    os.umask(0)
    try:
        store = open_store(state)
        store.add_chain(record())
    finally:
        os.umask(previous)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
    assert modes.pop("chainwatch.db") == 0o600
    assert set(modes.values()) <= {0o600}
    store.close()


def test_a_state_directory_that_was_open_to_others_is_closed(state: Path) -> None:
    state.mkdir(mode=0o755)
    open_store(state).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    state.chmod(0o775)
    open_store(state).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_directory_of_other_things_keeps_its_mode_and_is_refused_if_others_may_write(state: Path) -> None:
    state.mkdir()
    (state / "thesis.tex").touch()
    state.chmod(0o777)
    with pytest.raises(StoreError, match="others may write"):
        open_store(state)
    state.chmod(0o755)
    open_store(state).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away needs root")
def test_the_state_directory_of_somebody_else_is_refused(state: Path) -> None:
    state.mkdir()
    os.chown(state, 12345, -1)
    with pytest.raises(StoreError, match="uid 12345"):
        open_store(state)


def test_without_create_nothing_is_made(state: Path) -> None:
    with pytest.raises(StoreError, match="nothing was ever registered"):
        open_store(state, create=False)
    assert not state.exists()
    open_store(state).close()
    open_store(state, create=False).close()


def test_the_instance_stays_the_same_and_is_of_this_state_alone(state: Path, tmp_path: Path) -> None:
    first, again, other = (open_store(path) for path in (state, state, tmp_path / "other"))
    assert first.instance == again.instance != other.instance


def test_reopening_loads_no_alembic(state: Path) -> None:
    """Commands open the store for each of 200 runs in a shell's loop: Alembic alone takes half a second."""
    open_store(state).close()
    script = "import sys; from pathlib import Path; from chainwatch.store import open_store; "
    script += "open_store(Path(sys.argv[1])).chains(); sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script, str(state)]).returncode == 0


@pytest.mark.parametrize(
    "url", ["mysql://u:secret@h/d", "not a url", "sqlite://", "postgresql://u:secret@/x?host=/nowhere"]
)
def test_an_unusable_url_is_one_sentence_without_the_password(state: Path, url: str) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(state, url)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_sqlite_file_may_lie_elsewhere(state: Path, tmp_path: Path) -> None:
    store = open_store(state, f"sqlite:///{tmp_path}/my%20db/x.db")
    store.add_chain(record())
    assert store.file == tmp_path / "my db" / "x.db"
    assert store.file.exists()
    store.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def filled(state: Path) -> Path:
    store = open_store(state)
    with store.transaction():
        store.add_chain(record())
        for n in range(200):
            store.put_attempt("llama", attempt(n + 1, commit="x" * 200))
    file = store.file
    store.close()
    assert file is not None
    return file


@pytest.mark.parametrize("content", [b"", b"this is no database" * 99, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_and_left_as_it_is(state: Path, content: bytes) -> None:
    file = filled(state)
    file.write_bytes(content)
    with pytest.raises(StoreError, match="restore the newest backup"):
        open_store(state)
    assert file.read_bytes() == content


def test_a_file_that_was_cut_is_noticed(state: Path) -> None:
    file = filled(state)
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(StoreError, match="damaged"):
        open_store(state).verify()


def test_scribbled_pages_are_noticed_by_verify_and_no_backup_is_made_of_them(state: Path, tmp_path: Path) -> None:
    file = filled(state)
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size // 2)
        handle.write(b"\xa5" * 16384)
    store = open_store(state)
    with pytest.raises(StoreError, match="damaged"):
        store.verify()
    with pytest.raises(StoreError, match="damaged"):
        store.backup(tmp_path / "copy.db")
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    store.close()


def test_a_healthy_database_passes(store: Store) -> None:
    store.verify()


def test_a_database_of_something_else_is_refused(state: Path) -> None:
    state.mkdir(mode=0o700)
    with closing(sqlite3.connect(state / "chainwatch.db")) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(StoreError, match="not chainwatch's"):
        open_store(state)


def test_a_full_disk_stops_the_write_and_leaves_what_was_there(small_disk: Path) -> None:
    store = open_store(small_disk / "state")
    store.add_chain(record())
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as handle:
        try:
            while handle.write(b"\0" * 4096):
                pass
        except OSError:
            pass

    def too_much() -> None:
        with store.transaction():
            store.update_chain("llama", step=7)
            store.remember("big", "x" * 2_000_000)

    with pytest.raises(StoreError, match=r"disk is full|input/output error"):
        too_much()
    found = store.chain("llama")
    assert found is not None
    assert found.step is None
    filler.unlink()
    assert store.update_chain("llama", step=8).step == 8
    store.close()


def test_a_disk_that_is_full_from_the_beginning_is_one_sentence(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb", buffering=0) as handle:
        try:
            while handle.write(b"\0" * 4096):
                pass
        except OSError:
            pass
    with pytest.raises(StoreError) as refused:
        open_store(small_disk / "state")
    assert "\n" not in str(refused.value)


def test_a_database_at_its_limit_says_that_the_disk_is_full(state: Path) -> None:
    store = open_store(state)
    store.add_chain(record())

    def too_much(handled: bool) -> None:
        with store._writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
            store.update_chain("llama", step=7)
            try:
                store.remember("big", "x" * 1_000_000)
            except StoreError:
                if not handled:
                    raise
            store.update_chain("llama", step=8)

    with pytest.raises(StoreError, match="the disk is full: make room"):
        too_much(handled=False)
    with pytest.raises(StoreError):  # SQLite has undone the whole transaction: what follows must not stand alone
        too_much(handled=True)
    assert store.chain("llama") == record()
    assert store.recall("big") is None
    store.close()


def test_a_read_only_file_system_is_one_sentence(small_disk: Path) -> None:
    open_store(small_disk / "state").close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(small_disk / "state").add_chain(record())
    with pytest.raises(StoreError, match="choose another one"):
        open_store(small_disk / "new")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_one_sentence(state: Path) -> None:
    state.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="permission denied"):
        open_store(state)


def test_a_state_directory_that_is_a_file_is_one_sentence(state: Path) -> None:
    state.touch()
    with pytest.raises(StoreError, match="choose another one"):
        open_store(state)


# --- kill -9 ---------------------------------------------------------------------------------------------------------

IN_TRANSACTION = """
import sys, time
from pathlib import Path
from chainwatch.store import open_store
store = open_store(Path(sys.argv[1]), sys.argv[2] or None)
with store.transaction():
    store.update_chain("llama", step=99)
    store.remember("big", "x" * 3_000_000)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_process_killed_in_the_middle_of_a_transaction_leaves_nothing_of_it(
    store: Store, database: str | None, state: Path
) -> None:
    store.add_chain(record())
    kill_when_ready(run(IN_TRANSACTION, state, database or ""))
    again = open_store(state, database)
    assert again.chain("llama") == record()
    assert again.recall("big") is None
    assert again.update_chain("llama", step=1).step == 1
    again.close()


IN_MIGRATION = """
import sys, time
from pathlib import Path
from chainwatch.store import migrate, open_store
def stop(connection):
    print("ready", flush=True)
    time.sleep(600)
migrate._first_rows = stop
open_store(Path(sys.argv[1]), sys.argv[2] or None)
"""


def test_a_process_killed_while_it_makes_the_schema_leaves_a_fresh_start(database: str | None, state: Path) -> None:
    kill_when_ready(run(IN_MIGRATION, state, database or ""))
    store = open_store(state, database)
    store.add_chain(record())
    store.close()


# --- schema ----------------------------------------------------------------------------------------------------------


def test_migrations_and_tables_say_the_same(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_head_that_the_program_names_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]


def test_a_newer_schema_is_refused(store: Store, database: str | None, state: Path) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerSchema, match="9999 is newer"):
        open_store(state, database)


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A later release, with one more migration."""
    scripts = tmp_path / "later"
    shutil.copytree(MIGRATIONS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "9000_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9000', {HEAD!r}\n"
        "def upgrade():\n"
        "    with op.batch_alter_table('chains') as chains:\n"
        "        chains.add_column(sa.Column('colour', sa.Text, nullable=False, server_default='blue'))\n"
        "        chains.alter_column('sentence', type_=sa.String(4000))\n"
    )
    monkeypatch.setattr(store_module, "migrate", partial(migrate, head="9000", scripts=scripts))
    return "9000"


def test_an_older_database_is_brought_up_to_date_with_everything_in_it(
    store: Store, database: str | None, state: Path, later: str
) -> None:
    store.add_chain(record())
    store.put_attempt("llama", attempt(7))
    upgraded = open_store(state, database)
    assert upgraded.chain("llama") == record()
    assert [a.job.job_id for a in upgraded.attempts("llama")] == [7]
    with upgraded.engine.connect() as connection:
        assert connection.execute(text("SELECT colour FROM chains")).scalar() == "blue"
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == later
    upgraded.close()
    if database is None:
        kept = state / f"chainwatch.db.schema-{HEAD}"
        with closing(sqlite3.connect(kept)) as old:
            assert old.execute("SELECT version_num, name FROM alembic_version, chains").fetchone() == (HEAD, "llama")


def test_no_schema_changes_under_a_daemon_that_is_at_work(
    store: Store, database: str | None, state: Path, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    lease = store.acquire_lease(f"here:{os.getpid()}", MINUTE, now)
    with pytest.raises(StoreError, match=f"here:{os.getpid()} still works"):
        open_store(state, database)
    store.release_lease(lease)
    open_store(state, database).close()


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_the_database_of_every_release_can_still_be_read(dump: Path, state: Path) -> None:
    state.mkdir(mode=0o700)
    with closing(sqlite3.connect(state / "chainwatch.db")) as old:
        old.executescript(dump.read_text())
    store = open_store(state)
    [chain] = store.chains()
    assert (chain.name, chain.step, chain.settings["batch"]) == ("llama", 120, "train.sh")
    [first, second] = store.attempts("llama")
    assert first.verdict is not None
    assert (first.verdict.cause, second.ended) == ("preemption", None)
    evidence = store.evidence("llama", 1)
    assert evidence is not None
    assert evidence.checkpoints is not None
    assert evidence.checkpoints.newest_intact is not None
    assert evidence.checkpoints.newest_intact.step == 100
    assert [sentence for *_, sentence in store.decisions("llama")] == ["resubmits from step 100"]
    assert [(i.token, i.job_id) for i in store.intents("llama")] == [("t1", 8)]
    assert [n.key for n in store.active_notices()] == ["llama:preempted"]
    assert [e.node for e in store.excluded(NOW)] == ["n1"]
    assert [m.path for m in store.moves()] == ["/ckpt/step120"]
    assert store.counters() == [("submissions", {"chain": "llama"}, 1.0)]
    assert store.recall("last_poll") == {"at": 5}
    store.close()


# --- backups ---------------------------------------------------------------------------------------------------------

WRITING = """
import sys
from pathlib import Path
from chainwatch.store import open_store
store = open_store(Path(sys.argv[1]))
n = 0
while True:
    with store.transaction():
        store.remember("a", n)
        store.remember("b", n)
    if n == 5:
        print("ready", flush=True)
    n += 1
"""


@pytest.mark.parametrize("kind", ["script", "fifo", "link to a script"])
def test_a_backup_takes_the_place_of_nothing_but_an_earlier_backup(state: Path, tmp_path: Path, kind: str) -> None:
    script, target = tmp_path / "train.sbatch", tmp_path / "target"
    script.write_text("#!/bin/bash\n")
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "link to a script":
        target.symlink_to(script)
    else:
        target = script
    with closing(open_store(state)) as store:
        with pytest.raises(StoreError, match="is no earlier backup"):
            store.backup(target)
        earlier = store.backup(tmp_path / "copy.db")
        assert store.backup(earlier) == earlier
    assert script.read_text() == "#!/bin/bash\n"
    assert kind != "fifo" or target.is_fifo()


def test_a_backup_is_consistent_while_another_process_writes(state: Path, tmp_path: Path) -> None:
    store = open_store(state)
    writer = run(WRITING, state)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    try:
        for n in range(5):
            copy = store.backup(tmp_path / "copies" / f"{n}.db") if n else _first(store, tmp_path)
            with closing(sqlite3.connect(copy)) as backup:
                values = dict(backup.execute("SELECT key, value FROM memory").fetchall())
            assert values["a"] == values["b"]
    finally:
        writer.kill()
        writer.communicate()
    store.close()


def _first(store: Store, tmp_path: Path) -> Path:
    (tmp_path / "copies").mkdir()
    return store.backup(tmp_path / "copies" / "0.db")


def test_a_backup_is_a_database_that_can_be_put_back(state: Path, tmp_path: Path) -> None:
    store = open_store(state)
    store.add_chain(record())
    copies = tmp_path / "copies"
    copies.mkdir()
    copy = store.backup(copies)
    assert copy.parent == copies
    assert [p.name for p in copies.iterdir()] == [copy.name]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    restored = tmp_path / "restored"
    restored.mkdir(mode=0o700)
    shutil.copy(copy, restored / "chainwatch.db")
    again = open_store(restored)
    assert again.chains() == store.chains()
    assert again.instance == store.instance
    store.close()
    again.close()


def test_a_backup_never_replaces_the_database_itself(state: Path, tmp_path: Path) -> None:
    store = open_store(state)
    assert store.file is not None
    with pytest.raises(StoreError, match="the database itself"):
        store.backup(store.file)
    link = tmp_path / "link.db"
    link.symlink_to(store.file)
    with pytest.raises(StoreError, match="the database itself"):
        store.backup(link)
    with pytest.raises(StoreError, match="no such file or directory"):
        store.backup(tmp_path / "missing" / "x.db")
    store.close()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_backup_of_postgresql_is_left_to_its_own_tool(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="pg_dump"):
        store.backup(tmp_path / "x")


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_server_that_drops_the_connection_undoes_the_transaction_and_is_found_again(store: Store) -> None:
    store.add_chain(record())

    def cut_off() -> None:
        with store.transaction():
            store.update_chain("llama", step=1)
            with store.engine.connect() as other:
                idle = "SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in%' AND datname = current_database()"
                other.execute(text(f"SELECT pg_terminate_backend(pid) FROM ({idle}) AS idle"))
            store.update_chain("llama", step=2)

    with pytest.raises(StoreError, match="does not answer"):
        cut_off()
    assert store.chain("llama") == record()
