"""What operators read: node ids, one line per reason, and no text of others as it came."""

import msgspec
import pytest
from flwr.app import Context, Error, Message
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import (
    ConflictingMessage,
    CorruptShares,
    Disconnected,
    FaultyClient,
    HelpersMissing,
    LateMessage,
    TooFewClients,
    Unreliable,
)
from ccesa.evidence import Accusation, Evidence, WrongShare
from ccesa.flower import secure_mod
from ccesa.flower.server.report import Reasons, as_nodes, in_nodes, nodes_text, suspect
from ccesa.policy import Policy
from ccesa.protocol import messages as m
from ccesa.simulate.enrolment import NOTHING
from flower_grid import ERROR, MemoryGrid, make_app, number, step_of, trained
from flower_rounds import NODES, STEPS, assert_mean, enrol, one_round

IDS = {client: 7000 + client for client in range(40)}


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, unique=True))
def test_nodes_are_counted_and_named(nodes):
    found = nodes_text(nodes)
    if len(nodes) == 1:
        assert found == f"node {nodes[0]}"
    else:
        assert found.startswith(f"{len(nodes)} nodes ({min(nodes)}, ")
        assert found.count(",") <= 16


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FaultyClient(3, "a message in the name of", 5), "a message in the name of node 7005"),
        (LateMessage(3, "step share has closed"), "step share has closed"),
        (ConflictingMessage(3, "a second answer"), "a second answer"),
        (TooFewClients("step share: 2 answered, the round needs 3"), "2 answered"),
        (Unreliable([9]), "for node 7009; run"),
        (Unreliable([9, 4]), "for 2 nodes (7004, 7009); run"),
        (Unreliable(range(20)), "for 20 nodes (7000, 7001, 7002, "),
        (Disconnected([9, 4]), "apart from the others: 2 nodes (7004, 7009)"),
        (Disconnected([9]), "apart from the others: node 7009"),
        (CorruptShares(12, "3 of 4 shares fit"), "node 7012"),
        (FaultyClient(3, "in the name of", 4000000000), "in the name of client 4000000000"),
        (FaultyClient(3, "tag '\x1b[2J\n" + "x" * 10**6), "tag '\\x1b[2J\\nxxx"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_protocol_are_told_in_terms_of_nodes(error, expected):
    found = in_nodes(error, IDS)
    assert expected in found
    assert len(found) < 1200
    assert found.isprintable()


def test_equal_reasons_are_one_line_and_different_ones_do_not_fill_the_log():
    tally = Reasons()
    for node in range(1, 41):
        tally.add("no memory", node)
        tally.add(f"reason {node}", node)
    lines = list(tally.lines())
    assert lines[0].startswith("40 nodes (1, 2, 3,")
    assert lines[0].endswith("and 24 more): no memory")
    assert len(lines) == 6
    assert lines[-1].startswith("36 nodes (")


EVIDENCE = Evidence(
    wrong_shares=frozenset({WrongShare(3, 5, 9), WrongShare(3, 6, 9)}), accusations=frozenset({Accusation(7, 3)})
)


def test_evidence_is_told_in_terms_of_nodes():
    assert EVIDENCE.described(as_nodes(IDS)) == (
        "node 7003 sent a wrong share that node 7005 dealt; node 7003 sent a wrong share that node 7006 "
        "dealt; node 7007 could not open what node 7003 sealed for it"
    )


def test_helpers_have_the_names_of_the_charter_also_without_a_node():
    naming = as_nodes({0: 17, 3: 21}, {3: "uni-a", 4: "trust-c"})
    assert HelpersMissing([4, 3]).described(naming).startswith("no answer from helper uni-a (node 21), helper trust-c:")
    assert Accusation(3, 0).described(naming) == "helper uni-a (node 21) could not open what node 17 sealed for it"


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (None, ""),
        (3, ""),
        (2, "; of these, node 7003 stands in more pairs than 2 liars can make"),
        (0, "; of these, 4 nodes (7003, 7005, 7006, 7007) stand in more pairs than 0 liars can make"),
    ],
)
def test_suspects_are_named_where_a_number_of_liars_was_agreed_on(around, expected):
    assert suspect(EVIDENCE, IDS, around) == expected


@pytest.mark.parametrize("kind", [lambda: TooFewClients("gone"), lambda: Unreliable([9]), lambda: Disconnected([9])])
def test_a_failure_has_its_evidence_and_suspects(kind):
    failure = kind()
    failure.evidence = EVIDENCE
    found = in_nodes(failure, IDS, 2)
    assert "node 7007 could not open what node 7003 sealed for it" in found
    assert "of these, node 7003 stands in more pairs than 2 liars can make" in found
    assert "client" not in found


def changing(step: str, node: int, change, **others) -> MemoryGrid:
    """What this node replies in this step is changed on the way."""

    def mod(message: Message, context: Context, call_next) -> Message:
        at = step_of(message)
        reply = secure_mod(message, context, call_next)
        if (at, context.node_id) == (step, node):
            record = reply.content.config_records["ccesa"]
            record["reply"] = change(record["reply"])
        return reply

    return MemoryGrid(make_app(outer=[mod]), 8, **others)


@pytest.mark.parametrize("step", STEPS)
def test_a_reply_that_is_refused_is_told_with_its_node(step, said):
    one_round(changing(step, 1003, lambda reply: reply[:-1]))
    assert sum("node 1003: " in line for line in said) == 1
    assert not any("client 2" in line for line in said)


def test_wrong_shares_are_told_with_both_nodes(said):
    """Node 1003 sends one that is off by one, dealt by the first of the holders."""

    def off(reply: bytes) -> bytes:
        message = m.decode(reply, len(reply))
        shares = bytearray(message.shares)
        shares[0] ^= 1
        return m.UnmaskReply(context=message.context, client=message.client, shares=bytes(shares)).encode()

    assert_mean(one_round(changing("unmask", 1003, off)), number(8))
    (line,) = [line for line in said if "wrong share" in line]
    assert "the network did: node 1003 sent a wrong share that node 1001 dealt" in line
    assert "liars" not in line  # without a charter nobody has agreed on how many there are


def garbage(reply: bytes) -> bytes:
    """All texts that this node has sealed for others, with a bit of each changed."""
    message = m.decode(reply, len(reply))
    sealed = bytearray(message.sealed)
    for place in range(0, len(sealed), len(sealed) // 7):
        sealed[place] ^= 1
    return msgspec.structs.replace(message, sealed=bytes(sealed)).encode()


@pytest.mark.parametrize("around", [6, 7])
def test_complaints_are_told_with_both_nodes_and_who_stands_in_too_many(around, tmp_path, said):
    """Node 1003 seals garbage for all others; each of them says so and is out, so the round fails."""
    certificate = msgspec.structs.replace(NOTHING, around=around)
    charter, configs = enrol(tmp_path, 8, certificate=certificate)
    assert one_round(changing("share", 1003, garbage, node_configs=configs), charter=charter) is None
    (line,) = [line for line in said if "nodes is lost" in line]
    assert "node 1001 could not open what node 1003 sealed for it" in line
    assert "and 3 more such pairs" in line
    assert ("of these, node 1003 stands in more pairs than 6 liars can make" in line) == (around == 6)


def test_complaints_are_told_after_a_round_that_went_well(said):
    def one_text(reply: bytes) -> bytes:
        message = m.decode(reply, len(reply))
        sealed = bytearray(message.sealed)
        sealed[0] ^= 1
        return msgspec.structs.replace(message, sealed=bytes(sealed)).encode()

    assert_mean(one_round(changing("share", 1003, one_text)), [n for n in number(8) if n != 1001])
    (line,) = [line for line in said if "one node lied" in line]
    assert "node 1001 could not open what node 1003 sealed for it" in line


def test_a_round_that_is_lost_names_nodes(said):
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda at, node, count: ERROR if at == "unmask" and node > 1002 else None
    assert one_round(grid) is None
    (line,) = [line for line in said if "nodes is lost" in line]
    assert "too few live share holders for 6 nodes (1001, 1002, 1003, 1004, 1005, 1006)" in line
    assert "4 nodes (1003, 1004, 1005, 1006): Node unavailable" in line


def test_equal_refusals_are_one_line(said):
    configs = {node: {"ccesa-floor-clients": 100} for node in number(9) if node != 1001}
    assert one_round(MemoryGrid(make_app(), 9, node_configs=configs)) is None
    lines = [line for line in said if "8 nodes (1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009): " in line]
    assert ["step advertise: 8 nodes" in line for line in lines] == [True, False]
    assert "is lost" in lines[1]
    assert not any("node 100" in line for line in said)


def test_silent_nodes_are_one_line(said):
    grid = MemoryGrid(make_app(), NODES, faults=lambda at, node, count: "drop" if node > 1003 else None)
    one_round(grid, policy=Policy.wait_for_all(5.0))
    (line,) = [line for line in said if "no answer in time" in line and "step advertise" in line]
    assert "3 nodes (1004, 1005, 1006)" in line


NASTY = "patient\n\x1b[31m 2026-01-01 INFO flwr: all is well" + "x" * 300


def test_reasons_of_nodes_are_cut_and_escaped(said):
    def mod(message: Message, context: Context, call_next) -> Message:
        if context.node_id == 1003:
            return Message(Error(code=2002, reason=NASTY * 10_000), reply_to=message)
        return secure_mod(message, context, call_next)

    assert one_round(MemoryGrid(make_app(outer=[mod]), NODES)) is not None
    (line,) = [line for line in said if "node 1003" in line]
    assert line.isprintable()
    assert len(line) < 400


def test_names_of_metrics_are_cut_and_escaped(said):
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, NASTY: float("inf")}

    one_round(MemoryGrid(make_app(train), NODES))
    lines = [line for line in said if "is left out" in line]
    assert lines
    assert all(line.isprintable() and len(line) < 400 for line in lines)
