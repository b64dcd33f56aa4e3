"""The rounds of the vectors: replayed by the package, and once more by a second implementation."""

import msgspec
import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from second import Reference, Stream, bytes_of, members_after, raw, replies_of, threshold_of, words_of
from vector_files import cases, config_of, load, refused

#: Without and with accept.
FILES = ("round", "accept_round")

# Replayed by the package


def fresh_clients(case):
    config = RoundConfig.decode(raw(case["config"]))
    return {
        entry["client"]: Client(
            config,
            entry["client"],
            np.frombuffer(raw(entry["vector"]), words.dtype(config.bits)),
            task=raw(case["task"]),
            random=Stream(raw(entry["seed"])),
        )
        for entry in case["clients"]
    }


def gone_in(case, step):
    return {drop["client"] for drop in case["drops"] if drop["step"] == step["step"]}


@cases(FILES, "rounds", "name")
def test_clients_give_the_same_replies(case):
    clients = fresh_clients(case)
    assert config_of(case["fields"]).encode() == raw(case["config"])
    for step in case["steps"]:
        silent = {exchange["client"] for exchange in step["exchanges"] if exchange["reply"] is None}
        assert silent == gone_in(case, step)
        for exchange in replies_of(step):
            reply = clients[exchange["client"]].receive(raw(exchange["request"]))
            assert reply.hex() == exchange["reply"]


@cases(FILES, "rounds", "name")
def test_server_gives_the_same_requests_and_result(case):
    config, task = RoundConfig.decode(raw(case["config"])), raw(case["task"])
    server = Server(config, task=task, dropout=case["dropout"])
    requests = server.open()
    for step in case["steps"]:
        assert server.step.name == step["step"]
        assert [(client, request.hex()) for client, request in requests.items()] == [
            (exchange["client"], exchange["request"]) for exchange in step["exchanges"]
        ]
        for exchange in replies_of(step):
            server.receive(exchange["client"], raw(exchange.get("delivered", exchange["reply"])))
        last = step is case["steps"][-1]
        if last and "failure" in case["outcome"]:
            check_failure(case["outcome"], server)
            return
        requests = server.close()
    aggregate, outcome = server.result(), case["outcome"]
    assert requests == {}
    assert aggregate.vector.tobytes() == raw(outcome["sum"])
    assert list(aggregate.survivors) == outcome["survivors"]
    check_evidence(aggregate.evidence, outcome)


def check_failure(outcome, server):
    assert server.step.name == outcome["step"]
    with refused(outcome["failure"]) as caught:
        server.close()
    for name in ("clients", "component", "client"):
        found = getattr(caught.value, name, None)
        assert (list(found) if isinstance(found, tuple) else found) == outcome.get(name)
    check_evidence(caught.value.evidence, outcome)


def check_evidence(evidence, outcome):
    assert [list(pair) for pair in sorted(evidence.wrong_shares)] == outcome["wrong_shares"]
    assert [list(pair) for pair in sorted(evidence.accusations)] == outcome["accusations"]


def test_every_failure_and_every_step_has_a_round():
    found = load("round", "rounds")
    failures = {case["outcome"].get("failure") for case in found}
    assert failures == {None, "TooFewClients", "Unreliable", "Disconnected", "CorruptShares"}
    first = found[0]
    assert "sum" in first["outcome"]
    assert {drop["step"] for drop in first["drops"]} == {"advertise", "share", "mask", "unmask"}


def test_accept_costs_an_edge_or_a_place_and_its_first_round_has_a_dropout_in_every_step():
    first, edge, place, spare, few = load("accept_round", "rounds")
    assert {drop["step"] for drop in first["drops"]} == {"advertise", "share", "accept", "mask", "unmask"}
    assert first["fields"]["number"] == 300
    assert [len(step["exchanges"]) for step in edge["steps"]] == [6, 6, 6, 6, 5]
    assert {0, 2} <= {*edge["outcome"]["survivors"]}
    assert place["outcome"]["survivors"] == [0, 1, 3, 4, 5]
    assert spare["outcome"]["survivors"] == [1, 3, 4, 5]
    assert few["outcome"]["failure"] == "TooFewClients"


def test_a_linear_threshold_is_seen_above_the_holders_above_the_majority_and_below_it():
    (case,) = [case for case in load("round", "rounds") if case["fields"]["threshold"]["type"] == "linear"]
    degrees = [len(near) for near in Reference(case).near.values()]
    found = {(degree, threshold_of(case["fields"]["threshold"], degree)) for degree in degrees}
    assert {(1, 3), (4, 4), (7, 5)} <= found


# Once more, from the seeds alone


@cases(FILES, "rounds", "name")
def test_every_message_follows_from_the_seeds(case):
    reference = Reference(case)
    for step in case["steps"]:
        assert [exchange["client"] for exchange in step["exchanges"]] == reference.asked(step["step"])
        for exchange in step["exchanges"]:
            request, reply = reference.exchange(step["step"], exchange["client"])
            assert request.hex() == exchange["request"]
            assert exchange["reply"] in (None, reply and reply.hex())


@cases(FILES, "rounds", "name")
def test_accusations_are_what_the_accusers_said(case):
    """In accept, or in complaints; a false one is what the server received instead."""
    said = [
        [exchange["client"], accused]
        for step in case["steps"]
        for exchange in replies_of(step)
        for accused in accused_in(raw(exchange.get("delivered", exchange["reply"])))
    ]
    assert sorted(said) == case["outcome"]["accusations"]


def accused_in(reply):
    name, _, _, *fields = msgspec.msgpack.decode(reply)
    return words_of(fields[0], 32) if name in ("accept-reply", "complaint") else []


@cases(FILES, "rounds", "name")
def test_sum_is_the_plain_sum_of_the_survivors(case):
    if "failure" in case["outcome"]:
        assert "sum" not in case["outcome"]
        return
    bits = case["fields"]["bits"]
    (survivors,) = [members_after(step) for step in case["steps"] if step["step"] == "mask"]
    vectors = [words_of(raw(case["clients"][i]["vector"]), bits) for i in survivors]
    assert case["outcome"]["survivors"] == survivors
    assert bytes_of([sum(column) % 2**bits for column in zip(*vectors, strict=True)], bits) == raw(
        case["outcome"]["sum"]
    )
