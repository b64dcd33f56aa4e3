"""What a node insists on about noise, whatever the server says, and what it charges to its ledger."""

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message
from flwr.serverapp import strategy as flower

from ccesa.errors import AttemptsSpent
from ccesa.flower import SecureGrid
from ccesa.flower.both import envelope
from ccesa.flower.both.packing import Reply, packing_for
from ccesa.flower.both.terms import ReplyTerms
from ccesa.policy import Policy
from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy import quantizer as noise_module
from ccesa.privacy.ledger import Ledger
from ccesa.protocol import messages as m
from ccesa.values.fields import WORD_BITS
from flower_grid import DROP, MemoryGrid, all_say, as_record, lose, make_app, new_model, number
from flower_noise import DEMAND, changed, enrol_with_noise, ledgers, mechanism
from flower_rounds import NODES, envelope_of, messages, one_round

OTHERS = {node for node in number(NODES) if node != 1002}
#: 1 / mu of one of four rounds that are (8, 10^-5)-private together.
MULTIPLIER = 1.2004


def who_trains(grid) -> set[int]:
    return {node for kind, node in grid.app.calls if kind == "train"}


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"ccesa-min-noise": 1.21}, "times the norm, below ccesa-min-noise = 1.21"),
        ({"ccesa-budget": "7.9,1e-5"}, "4 round(s) with this noise spend epsilon = 8 at delta = 1e-05"),
        ({"ccesa-budget": "8.0,9e-6"}, "this node allows 8 (ccesa-budget)"),
        ({"ccesa-max-clip": 0.5}, "norm = 1, this node allows 0.5 (ccesa-max-clip)"),
        ({"ccesa-floor-survivors": 6}, "survivors = 5, this client's floor is 6"),
        ({"ccesa-colluders": 1}, "without accept, colluding nodes"),
    ],
)
def test_a_node_has_its_own_limits_of_noise(own, reason, tmp_path, said):
    ledger = ledgers(tmp_path)[1002] if "ccesa-budget" in own else {}
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: own | ledger})
    assert one_round(grid, privacy=DEMAND) is not None
    (refusal,) = [one for one in grid.replies("advertise") if one.has_error()]
    assert refusal.error.code == envelope.REFUSED
    assert any(reason in line for line in said)
    assert who_trains(grid) == OTHERS


def test_noise_of_colluders_does_not_count(said):
    """Where the server plans for none, a series has accept, and still too few honest nodes."""
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: {"ccesa-colluders": 1}})
    start = {"initial_arrays": as_record(new_model()), "num_rounds": 2}
    flower.FedAvg(fraction_evaluate=0.0).start(grid=SecureGrid(grid, privacy=DEMAND), **start)
    assert any("the noise needs 5 honest nodes; a sum has only 4" in line for line in said)
    assert who_trains(grid) == OTHERS
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: {"ccesa-colluders": 1}})
    assert one_round(grid, privacy=DEMAND, collusion=0.1) is not None
    assert who_trains(grid) == {*number(NODES)}


def test_limits_of_noise_that_are_kept_change_nothing(tmp_path):
    limits = {
        "ccesa-min-noise": MULTIPLIER,
        "ccesa-budget": "8.0,1e-5",
        "ccesa-max-clip": 1.0,
        "ccesa-floor-survivors": 5,
        "ccesa-weighted-by": "tokens",
    }
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: limits | ledgers(tmp_path)[1002]})
    assert one_round(grid, privacy=DEMAND) is not None
    assert who_trains(grid) == {*number(NODES)}


def test_a_node_that_insists_on_noise_answers_nothing_in_clear(said):
    own = {"ccesa-min-noise": 0.1, "ccesa-plain": True}
    grid = MemoryGrid(make_app(changed), NODES, node_configs=all_say(NODES, own))
    replies = grid.send_and_receive(messages(grid, new_model()))
    assert [reply.error.code for reply in replies] == [envelope.REFUSED] * NODES
    assert any("leave out ccesa-plain, or the keys" in line for line in said)


@pytest.mark.parametrize("key", ["ccesa-min-noise", "ccesa-ledger"])
def test_a_node_that_insists_on_noise_takes_part_in_nothing_else(key, tmp_path, said):
    own = ledgers(tmp_path)[1002] if key == "ccesa-ledger" else {key: 0.1}
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: own})
    assert one_round(grid) is not None
    assert who_trains(grid) == OTHERS
    assert any("this node refuses rounds without noise" in line for line in said)


@pytest.mark.parametrize("key", ["ccesa-min-noise", "ccesa-ledger"])
def test_nor_does_it_answer_a_query(key, tmp_path, said):
    """S31: what an app says to one has no noise, and would be charged nowhere."""
    own = ledgers(tmp_path)[1002] if key == "ccesa-ledger" else {key: 0.1}
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: own})
    replies = grid.send_and_receive(messages(grid, new_model(), "query"))
    assert [one.metadata.src_node_id for one in replies if one.has_error()] == [1002]
    assert {node for _, node in grid.app.calls} == OTHERS
    assert any(line.endswith("refused a message in the clear") for line in said)  # nothing would allow it


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ccesa-min-noise", -1.0, "ccesa-min-noise must be 0 or greater"),
        ("ccesa-min-noise", "much", "Expected `float`, got `str`"),
        ("ccesa-colluders", -1, "ccesa-colluders in this node's configuration: Expected `int` >= 0"),
        ("ccesa-budget", "3.0,1e-6", "ccesa-budget needs ccesa-ledger"),
        ("ccesa-budget", "3.0", "ccesa-budget must be epsilon,delta"),
        ("ccesa-budget", "3.0;1e-6", "ccesa-budget must be epsilon,delta"),
        ("ccesa-budget", "0,1e-6", "epsilon must lie above 0"),
        ("ccesa-budget", "3,1", "delta must be at least 1e-12 and below 1"),
        ("ccesa-budget", "nan,1e-6", "epsilon must lie above 0"),
        ("ccesa-ledger", "/nowhere/ledger", "/nowhere/ledger"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused(key, value, reason, said):
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: {key: value}})
    assert one_round(grid, privacy=DEMAND) is not None
    assert who_trains(grid) == OTHERS
    assert any(reason in line for line in said)


# A server that lies about the noise, to node 1002


ANOTHER = "for another task than the one this client works on"


def lying(change):
    """Change the terms that node 1002 is told."""

    def tamper(message: Message) -> None:
        if message.metadata.dst_node_id == 1002 and message.content["ccesa"].get("terms"):
            told = envelope_of(message)
            terms = ReplyTerms.decode(told["terms"])
            message.content["ccesa"] = ConfigRecord({**told, "terms": change(terms)})

    return tamper


def other(**fields):
    return lambda terms: msgspec.structs.replace(terms, privacy=mechanism(36, **fields)).encode()


def raw(**fields):
    """Numbers that no mechanism has: it is not even read."""

    def change(terms: ReplyTerms) -> bytes:
        told = msgspec.msgpack.decode(terms.encode())
        told["privacy"] |= fields
        return msgspec.msgpack.encode(told)

    return change


@pytest.mark.parametrize(
    ("change", "own", "reason"),
    [
        (other(epsilon=9.0), {"ccesa-min-noise": MULTIPLIER}, "below ccesa-min-noise ="),
        (other(rounds=3), {"ccesa-min-noise": MULTIPLIER}, "below ccesa-min-noise ="),
        (other(norm=1.5), {"ccesa-max-clip": 1.0}, "norm = 1.5"),
        (other(norm=1.5), {}, ANOTHER),
        (raw(variance=4 * 256), {}, "not a terms"),
        (raw(variance=2500), {}, "not a terms"),
        (raw(bound=1_000_000), {}, "not a terms"),
        (raw(honest=6), {}, "the noise needs 6 honest nodes; a sum has only 5"),
        (raw(dimension=37), {}, ANOTHER),
        (raw(dimension=35), {}, ANOTHER),
        (raw(against="lies"), {}, "noise against a server that lies needs a charter"),
        (lambda terms: msgspec.structs.replace(terms, privacy=msgspec.UNSET).encode(), {}, ANOTHER),
        (
            lambda terms: msgspec.structs.replace(terms, privacy=msgspec.UNSET).encode(),
            {"ccesa-min-noise": 0.1},
            "this node refuses rounds without noise",
        ),
        (lambda terms: msgspec.structs.replace(terms, counters=["b"]).encode(), {}, ANOTHER),
    ],
)
def test_a_server_cannot_take_noise_away_from_one_node(change, own, reason, said):
    grid = MemoryGrid(make_app(changed), NODES, node_configs={1002: own})
    grid.tamper = lying(change)
    assert one_round(grid, privacy=DEMAND) is not None
    assert who_trains(grid) == OTHERS
    assert any(reason in line for line in said)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": mechanism(37)}, "the model has 36 parameters, but the noise is made for 37"),
        ({"counters": ["b"]}, "the model has 32 parameters, but the noise is made for 36"),
        ({"privacy": msgspec.UNSET}, "elements do not fit a round of"),
    ],
)
def test_a_server_that_tells_all_nodes_the_same_gets_refusals(changes, reason, said):
    """It names the task that goes with its terms, so nodes have to see by themselves what does not fit."""
    grid = MemoryGrid(make_app(changed), NODES)
    content = messages(grid, new_model())[0].content

    def tamper(message: Message) -> None:
        told = envelope_of(message)
        if told.get("terms"):
            terms = msgspec.structs.replace(ReplyTerms.decode(told["terms"]), **changes)
            request = told["request"]
            if told["step"] == "mask":
                asked = m.decode(request, len(request))
                request = msgspec.structs.replace(asked, task=terms.round_task(content)).encode()
            message.content["ccesa"] = ConfigRecord({**told, "terms": terms.encode(), "request": request})

    grid.tamper = tamper
    assert one_round(grid, privacy=DEMAND) is None
    assert grid.app.calls == []
    assert sum(reason in line for line in said) >= NODES


# The ledger


def spent(configs, node: int) -> int:
    return Ledger(configs[node]["ccesa-ledger"]).spent().vectors


def test_every_vector_is_charged_before_it_leaves_also_in_rounds_that_are_lost(tmp_path):
    configs = ledgers(tmp_path)
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    grid.faults = lose(DROP, "unmask", *range(1003, 1007))
    secure = SecureGrid(grid, privacy=DEMAND, retries=1, policy=Policy.wait_for_all(5.0))
    assert len(list(secure.send_and_receive(messages(grid, new_model())))) == 1
    assert {spent(configs, node) for node in configs} == {2}


def test_a_round_that_ends_before_the_vectors_costs_nothing(tmp_path):
    configs = ledgers(tmp_path)
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    grid.faults = lose(DROP, "share", *range(1003, 1007))
    assert one_round(grid, privacy=DEMAND, timeout=60) is None
    assert {spent(configs, node) for node in configs} == {0}


def test_a_site_whose_budget_is_spent_is_left_out_by_name(tmp_path, said):
    configs = ledgers(tmp_path)
    (tmp_path / "small").mkdir()
    configs[1002] = ledgers(tmp_path / "small", epsilon=6.0)[1002]
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    start = {"initial_arrays": as_record(new_model()), "num_rounds": 4}
    flower.FedAvg(fraction_evaluate=0.0).start(grid=SecureGrid(grid, privacy=DEMAND), **start)
    assert {node: spent(configs, node) for node in configs} == {**dict.fromkeys(number(NODES), 4), 1002: 2}
    assert any("node 1002: this node has spent its privacy budget" in line for line in said)
    assert any("have spent epsilon = 5" in line and "of this site's 6" in line for line in said)  # on the node


def test_a_training_whose_sites_have_spent_their_budgets_ends_by_name(tmp_path):
    configs = ledgers(tmp_path, epsilon=6.0)
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    start = {"initial_arrays": as_record(new_model()), "num_rounds": 4}
    with pytest.raises(AttemptsSpent, match=r"6 nodes \(1001, .*has spent its privacy budget"):
        flower.FedAvg(fraction_evaluate=0.0).start(grid=SecureGrid(grid, privacy=DEMAND), **start)
    assert {spent(configs, node) for node in configs} == {2}
    assert grid.app.calls.count(("train", 1001)) == 2


def test_a_damaged_ledger_keeps_the_node_out(tmp_path, said):
    configs = ledgers(tmp_path)
    with open(configs[1002]["ccesa-ledger"], "ab") as file:
        file.write(b"something else\n")
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    assert one_round(grid, privacy=DEMAND) is not None
    assert who_trains(grid) == OTHERS
    assert any("is damaged" in line for line in said)


def test_a_member_without_a_ledger_takes_no_part(tmp_path, said):
    charter, configs = enrol_with_noise(tmp_path, mechanism(36))
    del configs[1002]["ccesa-ledger"]
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    assert one_round(grid, charter=charter) is not None
    assert who_trains(grid) == OTHERS
    assert any("the charter has noise, but this client has no ledger" in line for line in said)
    assert {spent(configs, node) for node in OTHERS} == {1}


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"ccesa-min-noise": 1.21}, "below ccesa-min-noise = 1.21"),
        ({"ccesa-budget": "7.9,1e-5"}, "this node allows 7.9"),
    ],
)
def test_a_member_can_insist_on_more_than_its_charter(own, reason, tmp_path, said):
    charter, configs = enrol_with_noise(tmp_path, mechanism(36))
    configs[1002] |= own
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    assert one_round(grid, charter=charter) is not None
    assert who_trains(grid) == OTHERS
    assert any(reason in line for line in said)


# Noise is drawn once, and never kept


@pytest.mark.parametrize("rounds", [1, 3])
def test_no_seed_of_noise_is_in_a_state_or_a_message(rounds, monkeypatch):
    """Whoever finds one can take this node's noise out of a sum."""
    seeds, states = {}, []
    draw, work = noise_module.mask_words, MemoryGrid._work

    def noted(generator, key, start, *size):
        if size[-1] == WORD_BITS:  # signs of the rotation, which is public, have fewer
            seeds[key] = seeds.get(key, 0) + (start == 0)
        return draw(generator, key, start, *size)

    monkeypatch.setattr(noise_module, "mask_words", noted)

    def kept(self, message, node):
        reply = work(self, message, node)
        states.append(b"".join(bytes(part) for part in dumped(self.state(node))))
        return reply

    monkeypatch.setattr(MemoryGrid, "_work", kept)
    grid = MemoryGrid(make_app(changed), NODES)
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=rounds, norm=1.0)
    start = {"initial_arrays": as_record(new_model()), "num_rounds": rounds}
    flower.FedAvg(fraction_evaluate=0.0).start(grid=SecureGrid(grid, privacy=demand), **start)
    assert len(seeds) >= rounds * NODES
    assert set(seeds.values()) == {1}  # each is used for one vector
    seen = b"".join([*states, *(one.data for one in grid.passed)])
    assert any(states)
    assert not any(key in seen for key in seeds)


def dumped(state):
    for record in state.values():
        for value in record.values():
            yield value if isinstance(value, bytes) else repr(value).encode()


def test_the_masking_request_twice_draws_no_second_noise(tmp_path):
    """Two vectors under the same masks would tell their difference."""
    configs = ledgers(tmp_path)
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    again = []

    def twice(step: str, node: int, count: int) -> None:
        if (step, node) == ("unmask", 1001):
            mask = next(one.message for one in grid.passed if one.to_node and one.step == "mask")
            again.append(grid._work(mask, 1001))

    grid.faults = twice
    assert one_round(grid, privacy=DEMAND) is not None
    assert again[0].has_error()
    assert spent(configs, 1001) == 1


def test_the_same_change_never_gives_the_same_vector():
    terms = ReplyTerms(message_type="train", clients=NODES, privacy=mechanism(36))
    packing = packing_for(terms, new_model(), bytes(32))
    arrays, _ = changed(1001, new_model())
    vectors = [packing.pack(Reply(arrays=arrays, metrics={}, weight=1.0))[0] for _ in range(2)]
    assert not np.array_equal(*vectors)
    assert not np.array_equal(packing.nothing(), packing.nothing())


def test_nodes_say_nothing_about_noise_that_is_not_asked_for():
    """The default: no keys, no noise, rounds as they were."""
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, {}))
    secure = SecureGrid(grid)
    assert len(list(secure.send_and_receive(messages(grid, new_model())))) == 1
    assert secure.noise is None
