"""What a node remembers, and what it drops: keys go early, and nothing happens twice."""

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import context_from_proto, context_to_proto
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import AttemptsSpent, ConfigError
from ccesa.flower import SecureGrid
from ccesa.flower.both import envelope
from ccesa.flower.node import mod as node_side
from ccesa.flower.node import state as memory
from ccesa.flower.node.state import StateMemory, SuspendedClient, SuspendedClients
from ccesa.flower.server import series as running
from ccesa.memory import MASK, RELEASE, ROUND, STATE, TASK, VECTOR, Entry, FolderMemory, UsedOnce
from ccesa.policy import Policy
from flower_grid import (
    ERROR,
    SILENT,
    Clock,
    MemoryGrid,
    all_say,
    as_record,
    lose,
    make_app,
    new_context,
    new_model,
    number,
)
from flower_rounds import NODES, STEPS, assert_mean, enrol, envelope_of, messages, one_round

KEY, OTHER, THIRD = bytes(32), b"\1" * 32, b"\2" * 32


class Now(Clock):
    """Seconds since 1970, as a node sees them."""

    def time(self) -> float:
        return 1e9 + self.now


@pytest.fixture
def now(monkeypatch):
    made = Now()
    monkeypatch.setattr(node_side, "time", made)
    return made


@pytest.fixture(params=["folder", "state"])
def kept(request, tmp_path):
    """A memory, in both ways to keep it."""
    return FolderMemory(tmp_path / "memory") if request.param == "folder" else StateMemory(new_context(1, {}))


def remember(folder: Path) -> dict[int, dict]:
    """Every node with a folder of its own."""
    return {node: {"ccesa-memory": str(folder / str(node))} for node in number(NODES)}


# Entries


def test_an_entry_is_made_once(kept):
    for mark in (
        Entry(ROUND, KEY),
        Entry(STATE, KEY),
        Entry(ROUND, OTHER),
        Entry(VECTOR, KEY + OTHER),
        Entry(VECTOR, KEY + OTHER, 2),
        Entry(RELEASE, KEY + OTHER, 2),
        Entry(VECTOR, THIRD + OTHER),
    ):
        assert mark not in kept
        assert kept.add(mark)
        assert mark in kept
        assert not kept.add(mark)
    assert set(kept.entries(VECTOR, KEY)) == {Entry(VECTOR, KEY + OTHER, number) for number in (1, 2)}
    assert {entry.key for entry in kept.entries(VECTOR)} == {KEY + OTHER, THIRD + OTHER}
    assert set(kept.entries(ROUND)) == {Entry(ROUND, KEY), Entry(ROUND, OTHER)}


def test_used_is_used(kept):
    seen = UsedOnce(kept, ROUND)
    seen.add(KEY)
    assert (KEY in seen, OTHER in seen) == (True, False)
    assert KEY not in UsedOnce(kept, STATE)
    with pytest.raises(ConfigError, match="another process of this site was first to use this round"):
        seen.add(KEY)


def test_entries_in_a_folder_are_there_for_the_next_process(tmp_path):
    FolderMemory(tmp_path / "deep" / "down").add(Entry(ROUND, KEY))
    again = FolderMemory(tmp_path / "deep" / "down")
    assert Entry(ROUND, KEY) in again
    assert not again.add(Entry(ROUND, KEY))


@pytest.mark.parametrize("name", ["round-", "round-xyz-1", "round--", f"round-{KEY.hex()}-one", "other"])
def test_a_name_that_nobody_can_read_is_refused(name, tmp_path):
    """Nobody knows what it forbids; a file of another kind does no harm."""
    (tmp_path / name).write_text("?")
    kept = FolderMemory(tmp_path)
    assert kept.add(Entry(ROUND, KEY))
    if name == "other":
        assert list(kept.entries(ROUND)) == [Entry(ROUND, KEY)]
        kept.sweep(1e12)
    else:
        with pytest.raises(ConfigError, match="nobody knows what it forbids"):
            list(kept.entries(ROUND))
    assert (tmp_path / name).exists()


def test_a_folder_forgets_rounds_after_a_month_and_tasks_never(tmp_path):
    kept = FolderMemory(tmp_path)
    for kind in (ROUND, STATE, MASK, VECTOR, RELEASE, TASK):
        kept.add(Entry(kind, KEY))
        kept.add(Entry(kind, OTHER))
        os.utime(tmp_path / f"{kind}-{KEY.hex()}-1", (0, 0))
        os.utime(tmp_path / f"{kind}-{OTHER.hex()}-1", (86400, 86400))
    kept.sweep(30 * 86400 + 1)
    for kind in (ROUND, STATE):
        assert set(kept.entries(kind)) == {Entry(kind, OTHER)}
    for kind in (MASK, VECTOR, RELEASE, TASK):
        assert set(kept.entries(kind)) == {Entry(kind, KEY), Entry(kind, OTHER)}


def test_a_state_keeps_a_bounded_number_of_entries(monkeypatch):
    monkeypatch.setitem(memory._MAXIMUM_ENTRIES, ROUND, 3)
    kept = StateMemory(new_context(1, {}))
    kept.add(Entry(VECTOR, KEY))
    for place in range(5):
        kept.add(Entry(ROUND, bytes([place]) * 32))
    assert [mark.key[0] for mark in kept.entries(ROUND)] == [2, 3, 4]
    assert Entry(VECTOR, KEY) in kept


DAMAGED = [
    ArrayRecord(),
    ConfigRecord(),
    ConfigRecord({"kept": "no bytes"}),
    ConfigRecord({"kept": [b"", b""]}),
    ConfigRecord({"kept": b""}),
    ConfigRecord({"kept": b"\xc1"}),
    ConfigRecord({"kept": msgspec.msgpack.encode({"round": [("round", "text", 1)], "x": 1})}),
    ConfigRecord({"kept": msgspec.msgpack.encode([{"config": b"x", "client": b"y"}])}),
]


@pytest.mark.parametrize("name", ["ccesa", "ccesa-memory"])
@pytest.mark.parametrize("record", DAMAGED)
def test_a_damaged_state_does_not_keep_a_node_out(name, record, said):
    grid = MemoryGrid(make_app(), NODES)
    grid.contexts[1003].state[name] = record
    assert_mean(one_round(grid), number(NODES))
    assert "ccesa" not in grid.state(1003)
    assert sum("the state of this node is damaged and was dropped" in line for line in said) == 1


def test_a_folder_that_everybody_can_write_to(tmp_path, said):
    folder = tmp_path / "memory"
    folder.mkdir()
    folder.chmod(0o777)
    grid = MemoryGrid(make_app(), NODES, node_configs={1002: {"ccesa-memory": str(folder)}})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert any("can be changed by others" in line for line in said)


def test_a_folder_that_cannot_be_made(tmp_path, said):
    """The node refuses, and does not say to the server where it looked."""
    (tmp_path / "file").touch()
    grid = MemoryGrid(make_app(), NODES, node_configs={1002: {"ccesa-memory": str(tmp_path / "file" / "x")}})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert any("cannot keep its memory in" in line for line in said)
    assert not any(b"memory in" in one.data for one in grid.passed)


def test_a_full_disk_is_a_refusal_and_not_a_round_without_memory(tmp_path, monkeypatch, said):
    def full(self, mark):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderMemory, "add", full)
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=remember(tmp_path))
    assert one_round(grid) is None
    assert {one.error.code for one in grid.replies("advertise")} == {envelope.FAILED}
    assert {one.error.reason for one in grid.replies("advertise")} == {"this node failed; its own log says why"}
    assert app.calls == []


# Where they are


@pytest.fixture
def own_process(monkeypatch, tmp_path):
    """As in the process that a SuperNode starts for a message to node 1002."""
    monkeypatch.setattr(TaskIdentity, "_node_id", 1002)
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_node_of_its_own_remembers_in_the_folder_of_flower(own_process):
    assert_mean(one_round(MemoryGrid(make_app(), NODES)), number(NODES))
    (folder,) = (own_process / "ccesa").iterdir()
    assert folder.name == "1002"
    kinds = sorted(path.name.split("-")[0] for path in folder.iterdir())
    assert kinds == ["mask", "release", "round", "state", "state", "state", "vector"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_simulated_node_remembers_in_its_state(monkeypatch, tmp_path):
    monkeypatch.setattr(TaskIdentity, "_node_id", None)
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    assert isinstance(memory.open_memory(node_side.NodeSettings(), new_context(1002, {})), StateMemory)
    assert not (tmp_path / "home").exists()


def test_a_node_without_a_place_for_its_memory(own_process, said):
    own_process.write_text("not a folder")
    assert_mean(one_round(MemoryGrid(make_app(), NODES)), number(NODES))
    assert any("cannot keep its memory" in line for line in said)


def test_a_node_with_a_charter_needs_a_place_for_its_memory(own_process, tmp_path, said):
    own_process.write_text("not a folder")
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    assert any("give this node a folder of its own: ccesa-memory" in line for line in said)


# Once


@pytest.mark.parametrize("with_folder", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_crashed_before_its_state_was_stored_does_not_answer_twice(step, with_folder, tmp_path):
    """Its state is as before the message. Without a folder it would go on from there a second time, and in
    the masking step train again and put another vector under the same masks."""
    app = make_app()
    configs = remember(tmp_path) if with_folder else {}
    grid = MemoryGrid(app, NODES, node_configs=configs)
    again = []

    def crash(at: str, node: int, count: int) -> None:
        if (at, node) == (step, 1004):
            message = next(one.message for one in grid.passed if one.to_node and (one.step, one.node) == (step, 1004))
            before = context_to_proto(grid.contexts[1004])
            grid._work(copy(message), 1004)
            grid.contexts[1004] = context_from_proto(before)
            again.append(grid._work(copy(message), 1004))
            grid.contexts[1004] = context_from_proto(before)

    grid.faults = crash
    one_round(grid, timeout=10.0)
    assert again[0].has_error() == with_folder
    if step == "mask":
        assert app.calls.count(("train", 1004)) == (1 if with_folder else 3)


def copy(message: Message) -> Message:
    return Message(RecordDict(dict(message.content)), metadata=message.metadata)


def test_a_round_id_is_used_once_even_in_another_run(tmp_path, said):
    grid = MemoryGrid(make_app(), NODES, node_configs=remember(tmp_path))
    one_round(grid)
    first = next(one.message for one in grid.passed if one.to_node and one.step == "advertise")
    again = MemoryGrid(make_app(), NODES, node_configs=remember(tmp_path))
    assert again._work(copy(first), 1001).has_error()
    assert any("has had a round of this number" in line for line in said)


# As often as a node allows


def or_spent(grid, model=None, **options) -> Message | None:
    """The reply of a round, or None if it is lost, be it because nodes are spent."""
    try:
        return one_round(grid, model, **options)
    except AttemptsSpent:
        return None


def says_spent(grid, model=None, **options) -> bool:
    """Whether a further round over this model brings nothing because all nodes refuse it."""
    grid.passed.clear()
    assert or_spent(grid, model, **options) is None
    replies = grid.replies("mask")
    spent = {(envelope.SPENT, "this node no longer contributes to this model")}
    return len(replies) == NODES and {(one.error.code, one.error.reason) for one in replies} == spent


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_a_node_that_has_released_shares_for_a_model_works_on_it_no_more(kind, said):
    app, other = make_app(), new_model()
    grid = MemoryGrid(app, NODES)
    assert one_round(grid, kind=kind) is not None
    assert says_spent(grid, kind=kind)
    assert app.calls.count((kind, 1001)) == 1  # it does not train for nothing
    assert any("released its shares for this task 1 time(s)" in line for line in said)
    assert any("ccesa-attempts and ccesa-releases" in line for line in said)
    other["w"][0, 0] += 1e-3
    assert one_round(grid, other, kind=kind) is not None
    assert one_round(grid, kind="evaluate" if kind == "train" else "train") is not None


@pytest.mark.parametrize(("attempts", "releases"), [(2, 2), (3, 2), (1, 1)])
def test_a_node_contributes_to_a_model_as_often_as_it_allows(attempts, releases, said):
    """In one series: a server that begins another one gets nothing at all."""
    own = {"ccesa-attempts": attempts, "ccesa-releases": releases}
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=all_say(NODES, own))
    secure = SecureGrid(grid)
    for _ in range(releases):
        assert len(secure.send_and_receive(messages(grid, new_model()))) == 1
    with pytest.raises(AttemptsSpent, match="may not contribute to this task again"):
        secure.send_and_receive(messages(grid, new_model()))
    assert app.calls.count(("train", 1001)) == releases
    assert one_round(grid, new_model(seed=6)) is not None
    said.clear()
    assert says_spent(grid, new_model(seed=6))
    if releases > 1:
        assert any(
            "contributed to this task in another series: repeat a lost round in that one" in line for line in said
        )


def test_no_setting_makes_another_model_of_it():
    grid = MemoryGrid(make_app(), NODES)
    for place, options in enumerate([{}, {"clip": 1.9999}, {"metric_clip": 2e6}, {"metric_slots": 8}]):
        content = {"arrays": as_record(new_model()), "config": ConfigRecord({"server-round": place})}
        some = [Message(RecordDict(content), node, "train") for node in grid.get_node_ids()]
        if place == 0:
            assert len(list(SecureGrid(grid, **options).send_and_receive(some))) == 1
        else:
            with pytest.raises(AttemptsSpent):
                SecureGrid(grid, **options).send_and_receive(some)


def test_contributions_are_remembered_in_the_next_run(tmp_path):
    assert one_round(MemoryGrid(make_app(), NODES, node_configs=remember(tmp_path))) is not None
    assert says_spent(MemoryGrid(make_app(), NODES, node_configs=remember(tmp_path)))


def test_a_round_that_is_lost_before_the_vectors_leave_costs_nothing(said):
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda step, node, count: ERROR if step == "share" and count < 5 and node > 1002 else None
    for _ in range(5):
        assert one_round(grid) is None
    assert_mean(one_round(grid), number(NODES))


def test_a_vector_that_has_left_is_counted_whatever_becomes_of_it(said):
    """The server may have it, even if the node never hears so."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(SILENT, "mask", *number(NODES), times=(0,)))
    assert one_round(grid, policy=Policy.wait_for_all(0.3)) is None
    assert says_spent(grid)
    assert any("in another series: repeat a lost round in that one" in line for line in said)


def test_training_counts_where_the_app_failed(said):
    """What a node could not contribute is as secret as that it could not."""

    def train(node, model):
        raise ValueError

    grid = MemoryGrid(make_app(train), NODES)
    assert [or_spent(grid) for _ in range(2)] == [None] * 2
    assert [one.has_error() for one in grid.replies("mask")] == [False] * NODES + [True] * NODES


# Keys leave


def holders(grid) -> list[int]:
    return [node for node in number(NODES) if "ccesa" in grid.state(node)]


class Killed(Exception):
    """The ServerApp is gone, and tells nobody."""


def kill_at(grid, step: str) -> None:
    def deliver(message: Message) -> None:
        if envelope_of(message)["step"] == step:
            raise Killed

    grid.tamper = deliver
    model = new_model()
    model["b"] += 1  # another one than in the rounds that come after it
    with pytest.raises(Killed):
        one_round(grid, model)
    grid.tamper = lambda message: None


@pytest.fixture
def without_forget(monkeypatch):
    """A server that is killed does not tell its nodes to forget."""
    monkeypatch.setattr(running, "forget", lambda *arguments, wait: None)


@pytest.mark.parametrize("step", STEPS[1:])
def test_keys_of_a_killed_server_leave_when_the_next_round_goes_on(step, without_forget):
    grid = MemoryGrid(make_app(), NODES)
    kill_at(grid, step)
    assert holders(grid) == list(number(NODES))
    seen = []
    grid.faults = lambda at, node, count: seen.append((at, len(clients_of(grid, node))))
    assert_mean(one_round(grid), number(NODES))
    assert holders(grid) == []
    assert {at: {held for one, held in seen if one == at} for at in STEPS} == {
        "advertise": {1},
        "share": {2},  # a message of the earlier round that comes late must not end this one
        "mask": {1},
        "unmask": {1},
    }


def clients_of(grid, node: int) -> list[bytes]:
    return [one.client for one in suspended_in(grid.state(node))]


def suspended_in(state: RecordDict) -> list[SuspendedClient]:
    found = state["ccesa"]["kept"] if "ccesa" in state else b"\x90"
    return msgspec.msgpack.decode(found, type=list[SuspendedClient])


def test_keys_leave_after_a_time(now, without_forget, said):
    configs = {1001: {"ccesa-forget-after": 100.0}}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    kill_at(grid, "mask")
    for seconds, kept in ((99, list(number(NODES))), (2, list(number(NODES))[1:]), (12 * 3600, [])):
        now.now += seconds
        forget_nothing(grid)
        assert holders(grid) == kept
    assert sum("dropped the keys of a round that did not go on" in line for line in said) == NODES


def forget_nothing(grid) -> None:
    """Any message at all; this one is about another round."""
    request = envelope.Envelope(step=envelope.FORGET, config=b"another round")
    for node in number(NODES):
        message = Message(envelope.request_with(RecordDict(), request), node, "train")
        message.metadata.__dict__["_message_id"] = message.object_id
        assert not grid._work(message, node).has_error()


def test_a_round_may_take_its_time(now):
    """Twelve hours between two steps; no message of Flower lives longer."""
    grid = MemoryGrid(make_app(), NODES)

    def slow(step: str, node: int, count: int) -> None:
        if node == 1001:
            now.now += 12 * 3600

    grid.faults = slow
    assert_mean(one_round(grid), number(NODES))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["begin", "go on", "wipe", "wait"])), max_size=30))
def test_at_most_two_rounds_sleep_and_none_older_than_one_that_went_on(events):
    """Against a model: the rounds that began, in order."""
    context, clock, expected = new_context(1, {}), 0.0, []
    for name, event in events:
        clock += 1.0
        config, sleeping = bytes([name]), SuspendedClients(context, "train", clock)
        if event == "begin":
            sleeping.put(config, b"keys")
            expected = [*(one for one in expected if one != config), config][-2:]
        elif event == "wipe":
            sleeping.wipe(config)
            expected = [one for one in expected if one != config]
        elif event == "go on" and config in expected:
            taken = sleeping.take(config)
            assert taken.client == b"keys"
            expected = expected[expected.index(config) :]
            assert clients(context) == expected[1:]
            sleeping.put(config, b"keys", taken.born)
        elif event == "go on":
            assert sleeping.take(config) is None
        assert clients(context) == expected


def test_each_type_of_message_has_suspended_clients_of_its_own():
    """A training that goes on does not end an evaluation that began before it."""
    context = new_context(1, {})
    for born, (message_type, config) in enumerate([("evaluate", b"1"), ("train", b"2"), ("train", b"3")]):
        SuspendedClients(context, message_type, float(born)).put(config, b"keys")
    training, evaluation = (SuspendedClients(context, kind, 9.0) for kind in ("train", "evaluate"))
    assert training.take(b"1") is None
    assert training.take(b"3").client == b"keys"
    assert clients(context) == [b"1"]
    training.wipe(b"1")
    assert clients(context) == [b"1"]
    evaluation.wipe(b"1")
    assert clients(context) == []


def clients(context) -> list[bytes]:
    return [one.config for one in suspended_in(context.state)]


def test_a_damaged_client_costs_its_round_and_no_other(said):
    grid = MemoryGrid(make_app(), NODES)

    def damage(step: str, node: int, count: int) -> None:
        if (step, node, count) == ("mask", 1003, 0):
            (one,) = suspended_in(grid.state(1003))
            cut = msgspec.structs.replace(one, client=one.client[:-1])
            grid.state(1003)["ccesa"]["kept"] = msgspec.msgpack.encode([cut])

    grid.faults = damage
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    assert_mean(one_round(grid, new_model(seed=6)), number(NODES), new_model(seed=6))
    np.testing.assert_equal(holders(grid), [])
