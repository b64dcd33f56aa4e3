"""What a client must not do twice: entries that are made once, in a folder or in a process."""

import os
import threading

import pytest

from ccesa import files
from ccesa.errors import ConfigError, OrderError, TaskSpent
from ccesa.memory import MASK, RELEASE, ROUND, STATE, TASK, VECTOR, Entry, FolderMemory, Memory, ProcessMemory, UsedOnce
from ccesa.protocol.spending import Spending, check_table, count_table
from rounds import configure

KEY, OTHER = b"\2" * 32, b"\1" * 32


@pytest.fixture(params=["folder", "process"])
def kept(request, tmp_path) -> Memory:
    return FolderMemory(tmp_path / "deep" / "down") if request.param == "folder" else ProcessMemory()


def test_an_entry_is_made_once_and_found_by_the_start_of_its_key(kept):
    assert isinstance(kept, Memory)
    every = [Entry(VECTOR, KEY + OTHER, 3), Entry(VECTOR, KEY + KEY), Entry(VECTOR, OTHER + KEY), Entry(RELEASE, KEY)]
    for one in every:
        assert one not in kept
        assert kept.add(one)
        assert not kept.add(one)
        assert one in kept
    assert set(kept.entries(VECTOR)) == set(every[:3])
    assert set(kept.entries(VECTOR, KEY)) == set(every[:2])
    assert list(kept.entries(STATE)) == []
    used = UsedOnce(kept, RELEASE)
    assert (KEY in used, OTHER in used) == (True, False)


def test_a_folder_is_there_for_the_next_process(tmp_path):
    FolderMemory(tmp_path).add(Entry(ROUND, KEY))
    assert not FolderMemory(str(tmp_path)).add(Entry(ROUND, KEY))


@pytest.mark.parametrize("end", ["", "xyz-1", f"{KEY.hex()}-one", f"{KEY.hex()}-01", f"{KEY.hex()}"])
def test_an_entry_that_cannot_be_read_is_refused_and_stays(end, tmp_path):
    (tmp_path / f"vector-{end}").touch()
    memory = FolderMemory(tmp_path)
    with pytest.raises(ConfigError, match="nobody knows what it forbids"):
        list(memory.entries(VECTOR))
    (tmp_path / f"vector-{end}").rename(tmp_path / f"round-{end}")
    memory.sweep(1e12)  # what is not ours is no harm where nothing is looked for
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_forgets_rounds_after_a_month_and_what_has_left_never(tmp_path):
    memory, kinds = FolderMemory(tmp_path), (ROUND, STATE, MASK, TASK, VECTOR, RELEASE)
    for kind in kinds:
        for key, made in ((KEY, 0), (OTHER, 86400)):
            memory.add(Entry(kind, key))
            os.utime(tmp_path / f"{kind}-{key.hex()}-1", (made, made))
    memory.sweep(30 * 86400 + 1)
    for kind in kinds:
        left = {OTHER} if kind in (ROUND, STATE) else {KEY, OTHER}
        assert {entry.key for entry in memory.entries(kind)} == left


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    for mode in (0o770, 0o707):
        folder = tmp_path / oct(mode)
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(ConfigError, match="can be changed by others"):
            FolderMemory(folder)


def test_a_folder_is_synced_with_those_above_it(tmp_path, monkeypatch):
    """An entry is not there to stay in a folder whose own name may be lost."""
    synced = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    FolderMemory(tmp_path / "a" / "memory")
    assert synced == [tmp_path / "a", tmp_path]
    FolderMemory(tmp_path / "a" / "memory")
    assert len(synced) == 2


def test_of_many_at_once_one_vector_leaves_for_a_number(tmp_path):
    """Processes of one site; threads with objects of their own stand for them."""
    start, left = threading.Barrier(8), []

    def contribute(place: int) -> None:
        config = configure(5, series_id=KEY, number=7, length=1 + place % 2)
        spending = Spending(config=config, memory=FolderMemory(tmp_path), attempts=9)
        start.wait()
        try:
            spending.send(spending.name(OTHER), OTHER)
        except (TaskSpent, OrderError):
            return
        left.append(place)

    threads = [threading.Thread(target=contribute, args=[place]) for place in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(left) == 1


class Racing(ProcessMemory):
    """Another process makes an entry in the moment after one of this kind was looked for or made."""

    def __init__(self, after: Entry | str, other: Entry) -> None:
        super().__init__()
        self.after, self.other = after, other

    def add(self, entry):
        found = super().add(entry)
        if self.after in (entry, entry.about):
            super().add(self.other)
        return found


def spending(memory: Memory, number: int = 1) -> Spending:
    return Spending(config=configure(5, series_id=KEY, number=number), memory=memory, attempts=9)


@pytest.mark.parametrize(
    "other", [Entry(VECTOR, KEY + KEY, 2), Entry(VECTOR, KEY + OTHER, 0), Entry(RELEASE, KEY + KEY, 0)]
)
def test_of_a_vector_and_what_another_process_does_at_once_the_later_is_seen(other):
    """It has no part in the lock; the entry is made first and looked at afterwards."""
    mine = spending(Racing(VECTOR, other))
    with pytest.raises(TaskSpent):
        mine.send(mine.name(KEY), KEY)


def test_of_a_release_and_a_later_vector_at_once_the_vector_is_seen():
    memory = Racing(RELEASE, Entry(VECTOR, KEY + KEY, 2))
    mine = spending(memory)
    mine.send(KEY, KEY)
    with pytest.raises(OrderError, match="sent a later vector for this task"):
        mine.release(KEY)


def test_what_another_process_was_first_to_do_is_not_done(tmp_path):
    first, second = (spending(FolderMemory(tmp_path)) for _ in range(2))
    first.send(KEY, KEY)
    first.release(KEY)
    for again in (lambda: second.send(OTHER, OTHER), lambda: second.check(KEY)):
        with pytest.raises(OrderError, match="has sent its vector of this round"):
            again()


def test_a_table_is_sent_as_often_as_the_charter_allows(kept):
    for _ in range(2):
        count_table(kept, KEY, 2)
    for refused in (check_table, count_table):
        with pytest.raises(TaskSpent, match=r"contributed its table 2 time\(s\)"):
            refused(kept, KEY, 2)
    count_table(kept, OTHER, 1)
