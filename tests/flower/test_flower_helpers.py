"""The guard ``assisted`` through Flower: helpers are nodes, and a member is sent one message a round."""

import time

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import strategy as flower

from ccesa.agreement.charter import Learning
from ccesa.errors import AttemptsSpent, ConfigError
from ccesa.flower import Policy, SecureGrid
from ccesa.flower.both.envelope import REFUSED, Envelope, request_with
from ccesa.flower.both.packing import packing_for
from ccesa.flower.both.terms import ReplyTerms
from ccesa.flower.node import mod
from ccesa.privacy.ledger import Ledger
from ccesa.protocol import assisted_client
from ccesa.protocol.submission import Binding, MaskKey
from flower_grid import (
    DROP,
    ERROR,
    RESTART,
    SILENT,
    SLOW,
    MemoryGrid,
    as_record,
    lose,
    make_app,
    model_in,
    new_model,
    number,
)
from flower_noise import SURVIVORS, changed, large_model, ledgers, mechanism, plain_mean, residue
from flower_rounds import NODES, assert_mean, enrol, messages

#: Two helpers that are no members, and one that is.
OUTSIDE = (1001 + NODES, 1002 + NODES)
HELPING = (*OUTSIDE, 1001)
TO_HELPER = ["key", "confirm", "unmask"]


@pytest.fixture
def assisted(tmp_path):
    return enrol(tmp_path, NODES, HELPING, colluders=1)


def federate(assisted, app=None, **options) -> MemoryGrid:
    return MemoryGrid(app or make_app(), NODES + len(OUTSIDE), node_configs=assisted[1], **options)


def ask(secure, grid, model=None, kind: str = "train", **options):
    """The reply of one round over all members, or None if it was lost."""
    asked = [one for one in messages(grid, model or new_model(), kind) if one.metadata.dst_node_id in number(NODES)]
    replies = list(secure.send_and_receive(asked, timeout=3600.0, **options))
    return replies[0] if replies else None


def keys_of(tmp_path, node: int) -> list[str]:
    return [path.name for path in (tmp_path / f"memory-{node}" / "keys").glob("*")]


def test_a_member_is_sent_one_message_in_a_round(assisted, tmp_path, said):
    grid = federate(assisted)
    secure = SecureGrid(grid, charter=assisted[0])
    for seed in (5, 6):
        assert_mean(ask(secure, grid, new_model(seed=seed)), number(NODES), new_model(seed=seed))
    assert grid.steps(1002) == ["introduce", "mask", "mask"]
    assert grid.steps(OUTSIDE[0]) == ["introduce", *TO_HELPER, *TO_HELPER]
    assert grid.steps(1001) == ["introduce", *["key", "mask", "confirm", "unmask"] * 2]
    assert not [node for node in HELPING if keys_of(tmp_path, node)]
    assert any(f"train, {NODES} of {NODES} nodes in the sum, 3 helpers" in line for line in said)


def test_only_members_are_sent_the_model(assisted):
    grid = federate(assisted)
    ask(SecureGrid(grid, charter=assisted[0]), grid)
    with_model = {one.node for one in grid.passed if one.to_node and one.message.content.array_records}
    assert with_model == {*number(NODES)}
    assert {node for _, node in grid.app.calls} == {*number(NODES)}


def test_the_model_is_that_of_plain_averaging_bit_for_bit(assisted):
    """As the packing makes it of the plain sum of all vectors."""
    vectors, pack = [], mod.pack_reply

    def keep(reply, packing):
        vectors.append(pack(reply, packing))
        return vectors[-1]

    grid, model = federate(assisted), new_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mod, "pack_reply", keep)
        found = model_in(ask(SecureGrid(grid, charter=assisted[0]), grid, model))
    plain = np.sum(vectors, axis=0, dtype=np.uint64)
    expected = packing_for(ReplyTerms.under(assisted[0], "train"), model).unpack(plain, NODES).arrays
    assert all(found[name].tobytes() == expected[name].tobytes() for name in model)


def test_a_training_with_evaluations(assisted, said):
    """The strategy does not choose nodes that only help, once they are known."""
    grid = federate(assisted)
    secure = SecureGrid(grid, charter=assisted[0])
    result = flower.FedAvg().start(grid=secure, initial_arrays=as_record(new_model()), num_rounds=3)
    assert set(result.train_metrics_clientapp[3]) == {"loss"}
    assert set(result.evaluate_metrics_clientapp[3]) == {"accuracy", "loss"}
    assert [*secure.get_node_ids()] == [*number(NODES)]
    assert grid.steps(1002) == ["introduce", *["mask"] * 6]
    assert sum(f"{NODES} of {NODES} nodes in the sum" in line for line in said) == 5  # the first asked all
    assert sum("a single round: 4 exchanges" in line for line in said) == 6


@pytest.mark.parametrize("fault", [DROP, SILENT, ERROR])
def test_a_member_that_never_answers_is_left_out(fault, assisted):
    grid = federate(assisted, faults=lose(fault, "mask", 1004))
    assert_mean(ask(SecureGrid(grid, charter=assisted[0]), grid), [node for node in number(NODES) if node != 1004])


def test_too_few_members_are_a_lost_round(assisted, said):
    grid = federate(assisted, faults=lose(ERROR, "mask", 1001, 1002, 1003, 1004))
    assert ask(SecureGrid(grid, charter=assisted[0]), grid) is None
    assert any("2 answered, the round needs 3" in line for line in said)


@pytest.mark.parametrize("step", TO_HELPER)
def test_a_helper_that_fails_is_named_and_costs_the_round(step, assisted, tmp_path, said):
    """Before it is asked for a sum, the same model is asked for again; after that, one a step aside."""
    grid = federate(assisted, faults=lose(ERROR, step, OUTSIDE[1]))
    secure, model = SecureGrid(grid, charter=assisted[0], retries=1), new_model()
    found = model_in(ask(secure, grid, model))
    (lost,) = [line for line in said if "lost, and repeated" in line]
    assert f"helper helper-1 (node {OUTSIDE[1]})" in lost
    assert not [node for node in HELPING if keys_of(tmp_path, node)]
    assert any("step aside" in line for line in said) == (step == "unmask")
    assert np.abs(found["w"] - new_model()["w"]).max() < 1


def test_a_helper_without_a_node_is_named(assisted, said):
    grid = federate(assisted)
    del grid.contexts[OUTSIDE[0]]
    secure = SecureGrid(grid, charter=assisted[0])
    assert ask(secure, grid) is None
    assert any("no answer from helper helper-0: every helper is needed" in line for line in said)
    assert "mask" not in grid.steps(1002)


@pytest.mark.parametrize("step", ["confirm", "unmask"])
def test_a_helper_that_was_restarted_goes_on_with_the_key_in_its_folder(step, assisted):
    grid = federate(assisted, faults=lose(RESTART, step, *HELPING))
    assert_mean(ask(SecureGrid(grid, charter=assisted[0]), grid), number(NODES))


def test_a_helper_that_was_started_anew_keeps_its_place(assisted, said):
    """Flower gives it another number, and no strategy asks for it."""
    grid = federate(assisted)
    secure, model = SecureGrid(grid, charter=assisted[0]), new_model(seed=6)
    ask(secure, grid)
    gone = grid.contexts[OUTSIDE[0]]
    grid.contexts[2000] = Context(
        run_id=1, node_id=2000, node_config=gone.node_config, state=RecordDict(), run_config={}
    )
    assert_mean(ask(secure, grid, model), number(NODES), model)
    assert grid.steps(2000) == ["introduce", *TO_HELPER]
    assert any(f"node 2000 takes the place of node {OUTSIDE[0]}" in line for line in said)


def test_a_helper_that_lost_its_folder_has_no_key(assisted, tmp_path, said):
    grid, moved = federate(assisted), []

    def forget(step, node, count):
        if step == "unmask" and node == OUTSIDE[0] and not moved:
            moved.append((tmp_path / f"memory-{node}").rename(tmp_path / "elsewhere"))

    grid.faults = forget
    assert ask(SecureGrid(grid, charter=assisted[0]), grid) is None
    assert any("this helper has no key for this round" in line for line in said)


def test_a_member_whose_box_a_helper_refuses_is_left_out(assisted, monkeypatch, said):
    class Wrong(Binding):
        """A member that seals another box for the helper in place 1."""

        def mask_key(self, secret, client, place, key, ciphertext):
            made = super().mask_key(secret, client, place, key, ciphertext)
            return MaskKey(made.key, bytes(16)) if (client, place) == (3, 1) else made

    monkeypatch.setattr(assisted_client, "Binding", Wrong)
    grid = federate(assisted)
    assert_mean(ask(SecureGrid(grid, charter=assisted[0]), grid), [node for node in number(NODES) if node != 1004])
    (pair,) = [line for line in said if "in each of these pairs" in line]
    assert f"helper helper-1 (node {OUTSIDE[1]}) could not open what node 1004 sealed for it" in pair


def test_a_lost_round_is_repeated_in_the_same_form_only(assisted, said):
    """Flower writes the number of its round into the settings: helpers would take that for another task."""
    grid = federate(assisted, faults=lose(ERROR, "confirm", OUTSIDE[0]))
    secure = SecureGrid(grid, charter=assisted[0])
    result = flower.FedAvg(fraction_evaluate=0.0).start(
        grid=secure, initial_arrays=as_record(new_model()), num_rounds=2
    )
    assert [*result.train_metrics_clientapp] == [2]
    assert any("step aside" in line for line in said)


def test_the_same_model_again_after_its_sum_ends_the_training(assisted, tmp_path, said):
    grid = federate(assisted)
    secure = SecureGrid(grid, charter=assisted[0])
    assert_mean(ask(secure, grid), number(NODES))
    with pytest.raises(AttemptsSpent, match="may not contribute to this task again"):
        ask(secure, grid)
    assert any("this helper has answered about this task in another round" in line for line in said)
    assert not [node for node in HELPING if keys_of(tmp_path, node)]


def test_a_helper_keeps_no_key_of_a_round_that_does_not_go_on(assisted, tmp_path, monkeypatch):
    """The server does not say goodbye here, and the node is asked again after ``ccesa-forget-after``."""
    monkeypatch.setattr("ccesa.flower.server.series.forget", lambda *args, **options: None)
    configs = {node: {**one, "ccesa-forget-after": 100.0} for node, one in assisted[1].items()}
    grid = federate((assisted[0], configs), faults=lose(ERROR, "confirm", OUTSIDE[0]))
    secure = SecureGrid(grid, charter=assisted[0])
    assert ask(secure, grid) is None
    before = keys_of(tmp_path, OUTSIDE[1])
    late = time.time() + 101
    monkeypatch.setattr(mod.time, "time", lambda: late)
    assert_mean(ask(secure, grid, new_model(seed=6)), number(NODES), new_model(seed=6))
    assert len(before) == 1
    assert keys_of(tmp_path, OUTSIDE[1]) == []


def test_the_policy_waits_longer_for_helpers(assisted, clock):
    """All of them are needed, so there are never enough of them, and they have as long as members that train."""
    policy = Policy(enough=0.5, after=1, deadline=2, vector_after=3, vector_deadline=500)
    grid = federate(assisted, delay=400.0, faults=lose(SLOW, "unmask", OUTSIDE[0]))
    assert_mean(ask(SecureGrid(grid, charter=assisted[0], policy=policy), grid), number(NODES))
    assert 400 <= clock.now < 500


def test_a_first_round_waits_for_a_helper_that_is_slow_to_introduce_itself(assisted, clock):
    policy = Policy(enough=0.5, after=1, deadline=2, vector_after=3, vector_deadline=500)
    grid = federate(assisted, delay=400.0, faults=lose(SLOW, "introduce", OUTSIDE[0]))
    assert_mean(ask(SecureGrid(grid, charter=assisted[0], policy=policy), grid), number(NODES))
    assert 400 <= clock.now < 500


@pytest.mark.parametrize("fault", [None, SILENT])
def test_helpers_are_asked_as_vectors_come_and_a_silent_one_once(fault, assisted, monkeypatch, clock):
    """Else a helper that is gone would be waited for with every vector after that."""
    monkeypatch.setattr("ccesa.protocol.round.HELD_BYTES", 1)
    grid = federate(assisted, faults=lose(fault, "confirm", OUTSIDE[0], times=range(9)))
    secure = SecureGrid(grid, charter=assisted[0], policy=Policy(vector_deadline=500))
    assert (ask(secure, grid) is None) == (fault is not None)
    assert grid.steps(OUTSIDE[0]).count("confirm") == (NODES if fault is None else 1)
    assert grid.steps(OUTSIDE[1]).count("confirm") == NODES
    assert clock.now < 600


def test_enough_are_no_fewer_than_a_sum_needs(assisted):
    SecureGrid(federate(assisted), charter=assisted[0], policy=Policy(enough=0.5))
    with pytest.raises(ConfigError, match=r"enough = 0.4 "):
        SecureGrid(federate(assisted), charter=assisted[0], policy=Policy(enough=0.4))


def test_a_helper_needs_a_folder(assisted, said):
    configs = {node: dict(one) for node, one in assisted[1].items()}
    del configs[OUTSIDE[0]]["ccesa-memory"]
    grid = federate((assisted[0], configs))
    assert ask(SecureGrid(grid, charter=assisted[0]), grid) is None
    assert any("a helper needs a folder that it keeps when it is started again: ccesa-memory" in line for line in said)


def test_noise_is_charged_and_a_task_may_come_again(tmp_path, said):
    noise, own = mechanism(), ledgers(tmp_path, nodes=NODES)
    agreed = {"privacy": noise, "min_survivors": SURVIVORS, "learning": Learning()}
    charter, configs = enrol(tmp_path, NODES, HELPING, colluders=0, **agreed)
    configs = {node: {**config, **own.get(node, {})} for node, config in configs.items()}
    grid = federate((charter, configs), make_app(changed), faults=lose(ERROR, "unmask", OUTSIDE[0]))
    secure, model = SecureGrid(grid, charter=charter, retries=1), large_model()
    found = model_in(ask(secure, grid, model))
    assert residue(found, plain_mean(model, number(NODES))) == pytest.approx(secure.noise, rel=0.06)
    assert not any("step aside" in line for line in said)
    assert len([*Ledger(own[1002]["ccesa-ledger"]).charges()]) == 2


def test_a_node_that_is_not_named_as_a_helper_answers_as_none(assisted, said):
    """The server has another charter in mind: it sends the requests of a helper to a member."""
    grid = federate(assisted)
    request = Envelope(step="key", config=assisted[0].config(length=5).encode(), request=b"")
    (reply,) = grid.send_and_receive([Message(request_with(RecordDict(), request), 1002, "train")])
    assert reply.error.code == REFUSED
    assert any("the charter does not name this node as a helper" in line for line in said)


def test_the_agreement_after_quantum(tmp_path):
    assisted = enrol(tmp_path, NODES, HELPING, colluders=1, agreement="x25519-mlkem768")
    grid = federate(assisted)
    assert_mean(ask(SecureGrid(grid, charter=assisted[0]), grid), number(NODES))
