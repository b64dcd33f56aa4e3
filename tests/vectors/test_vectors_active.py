"""The vectors of the guard ``active``: identities, rosters, whole rounds, and what must be refused."""

import os

import numpy as np
import pytest

from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Admission, Identity, Member
from ccesa.crypto import merkle, primitives
from ccesa.errors import FaultyServer, OrderError
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.server import Server
from second import LABELS, Stream, bytes_of, hashed, members_after, raw, replies_of, words_of
from second_active import (
    ActiveReference,
    admitted_keys,
    bitmap,
    bundle_text,
    charter_digest,
    charter_encoding,
    charter_of,
    config_encoding,
    confirmed_text,
    identity_of,
    leaf_of,
    masking_text,
    proof_of,
    receipt_text,
    root_of,
    seed_of,
    signature_of,
    top_of,
)
from test_vector_rounds import check_evidence
from vector_files import cases, load, refused

# identities.json


def private_file(folder, text):
    path = folder / "identity"
    path.write_text(text, encoding="utf-8")
    os.chmod(path, 0o600)
    return path


@cases("identities", "identities", "name")
def test_identity(case, tmp_path):
    seed, public = raw(case["seed"]), raw(case["public"])
    assert Identity(seed).public == identity_of(seed) == public
    assert Identity.load(private_file(tmp_path, case["file"])) == Identity(seed)
    Identity(seed).save(tmp_path / "written")
    assert (tmp_path / "written").read_text(encoding="ascii") == case["file"]
    assert Member.parse(case["line"]) == Member(case["name"], public, "since March")
    assert str(Member.parse(case["line"])) == case["line"]


@cases("identities", "bad_identity_files", "reason")
def test_bad_identity_file_is_refused(case, tmp_path):
    with refused(case["error"]):
        Identity.load(private_file(tmp_path, case["file"]))


@cases("identities", "signatures", "name")
def test_signature(case):
    seed, text, signature = raw(case["seed"]), raw(case["text"]), raw(case["signature"])
    assert Identity(seed).sign(text) == signature_of(seed, text) == signature
    primitives.verify(raw(case["public"]), signature, text)


@cases("identities", "bad_signatures", "reason")
def test_bad_signature_does_not_verify(case):
    key = raw(case["public"])
    with refused(case["error"]):
        primitives.verify(key, raw(case["signature"]), raw(case["text"]))


@cases("identities", "admission_lists", "name")
def test_admission_list(case):
    admission = Admission.parse(case["text"])
    found = [{**vars(member), "public": member.public.hex()} for member in admission.members]
    assert found == case["members"]
    assert [member.public for member in admission.members] == admitted_keys(case["text"])
    assert Admission.parse(str(admission)).members == admission.members


@cases("identities", "bad_admission_lists", "reason")
def test_bad_admission_list_is_refused(case):
    with refused(case["error"]):
        Admission.parse(case["text"])


# charters.json


@cases("charters", "charters", "name")
def test_charter(case):
    charter, text = Charter.parse(case["text"]), case["text"]
    assert charter.encode() == charter_encoding(text) == raw(case["encoding"])
    assert charter.digest == charter_digest(text) == raw(case["digest"])
    assert str(charter) == text
    round = {name: case[name] for name in ("number", "length", "accept")}
    round["series_id"] = raw(case["series_id"])
    config = charter.config(**round)
    assert config.encode() == config_encoding(text, **round) == raw(case["config"])
    assert config.context == hashed(LABELS["context"], raw(case["config"])) == raw(case["context"])
    assert charter.decode(raw(case["config"])) == config


@cases("charters", "same", "reason")
def test_the_same_charter_in_other_words(case):
    plain = Charter.parse(load("charters", "charters")[0]["text"])
    assert Charter.parse(case["text"]).digest == plain.digest == charter_digest(case["text"])


@cases("charters", "bad_charters", "reason")
def test_bad_charter_is_refused(case):
    with refused(case["error"]):
        Charter.parse(case["text"])


@cases("charters", "bad_configurations", "reason")
def test_bad_configuration_under_a_charter_is_refused(case):
    plain = Charter.parse(load("charters", "charters")[0]["text"])
    with refused(case["error"]):
        plain.decode(raw(case["encoding"]))


# roster.json


@cases("roster", "sets", "name")
def test_set(case):
    members = np.isin(np.arange(case["clients"]), case["members"])
    assert m.pack_set(members) == bitmap(case["members"], case["clients"]) == raw(case["data"])
    assert np.array_equal(m.unpack_set("set", raw(case["data"]), case["clients"]), members)


@cases("roster", "bad_sets", "reason")
def test_bad_set_is_refused(case):
    with refused(case["error"]):
        m.unpack_set("set", raw(case["data"]), case["clients"])


@cases("roster", "trees", "name")
def test_tree(case):
    leaves = [raw(leaf) for leaf in case["leaves"]]
    tree = merkle.levels(leaves)
    assert tree[-1].tobytes() == top_of(leaves) == raw(case["top"])
    for each in case["proofs"]:
        places, proof = each["places"], raw(each["proof"])
        assert merkle.prove(tree, np.array(places)) == proof_of(leaves, places) == proof
        shown = [leaves[place] for place in places]
        assert merkle.top(len(leaves), places, shown, proof) == raw(case["top"])


@cases("roster", "bad_proofs", "reason")
def test_bad_proof_leads_nowhere(case):
    leaves = [raw(leaf) for leaf in case["leaves"]]
    try:
        found = merkle.top(case["size"], case["places"], leaves, raw(case["proof"]))
    except merkle.WrongProof:
        return
    assert found != raw(case["top"])


@cases("roster", "rosters", "name")
def test_committed_roster(case):
    context, v1 = raw(case["context"]), raw(case["v1"])
    ids = [member["client"] for member in case["members"]]
    leaves = [leaf_of(context, member["client"], raw(member["keys"])) for member in case["members"]]
    assert leaves == [raw(member["leaf"]) for member in case["members"]]
    assert leaves == [signed_texts.leaf(context, one["client"], raw(one["keys"])) for one in case["members"]]
    assert bitmap(ids, case["clients"]) == v1
    top = top_of(leaves)
    assert top == raw(case["top"])
    assert signed_texts.root(context, v1, top) == root_of(context, v1, top) == raw(case["root"])
    assert signed_texts.proven_root(context, v1, list(range(len(ids))), leaves, b"") == raw(case["root"])
    assert signed_texts.seed(context, raw(case["root"])) == seed_of(context, raw(case["root"]))
    assert seed_of(context, raw(case["root"])) == raw(case["seed"])


TEXTS = {
    "bundle": (signed_texts.bundle_text, bundle_text, ("client", "keys")),
    "masking": (signed_texts.masking_text, masking_text, ("root", "v2", "task")),
    "confirmed": (signed_texts.confirmed_text, confirmed_text, ("root", "v2", "task", "v3")),
    "receipt": (signed_texts.receipt_text, receipt_text, ("root", "v2", "task", "digest")),
}


@cases("roster", "signed", "name")
def test_signed_text(case):
    ours, second, names = TEXTS[case["kind"]]
    values = [case[name] if name == "client" else raw(case[name]) for name in names]
    text = raw(case["text"])
    assert ours(raw(case["context"]), *values) == second(raw(case["context"]), *values) == text
    assert Identity(raw(case["seed"])).sign(text) == signature_of(raw(case["seed"]), text)
    assert signature_of(raw(case["seed"]), text) == raw(case["signature"])


# active_round.json and active_accept_round.json: replayed by the package

FILES = ("active_round", "active_accept_round")


def fresh_client(case, entry):
    charter = Charter.parse(case["charter"])
    config = charter.decode(raw(case["config"]))
    return ActiveClient(
        config,
        Identity(raw(entry["identity"])),
        charter,
        np.frombuffer(raw(entry["vector"]), words.dtype(config.bits)),
        task=raw(case["task"]),
        random=Stream(raw(entry["seed"])),
        tasks=None,
    )


def fresh_server(case):
    charter = Charter.parse(case["charter"])
    return Server(charter.decode(raw(case["config"])), charter, task=raw(case["task"]))


@cases(FILES, "rounds", "name")
def test_clients_give_the_same_replies(case):
    clients = {entry["client"]: fresh_client(case, entry) for entry in case["clients"]}
    assert [client.client for client in clients.values()] == list(clients)
    for step in case["steps"]:
        silent = {exchange["client"] for exchange in step["exchanges"] if exchange["reply"] is None}
        assert silent == {drop["client"] for drop in case["drops"] if drop["step"] == step["step"]}
        for exchange in replies_of(step):
            reply = clients[exchange["client"]].receive(raw(exchange["request"]))
            assert reply.hex() == exchange["reply"]


@cases(FILES, "rounds", "name")
def test_server_gives_the_same_requests_and_result(case):
    server, outcome = fresh_server(case), case["outcome"]
    requests = server.open()
    for step in case["steps"]:
        assert server.step.name == step["step"]
        assert [(client, request.hex()) for client, request in requests.items()] == [
            (exchange["client"], exchange["request"]) for exchange in step["exchanges"]
        ]
        for exchange in replies_of(step):
            server.receive(exchange["client"], raw(exchange.get("delivered", exchange["reply"])))
        if step is case["steps"][-1] and "failure" in outcome:
            assert step["step"] == outcome["step"]
            with refused(outcome["failure"]) as caught:
                server.close()
            assert list(getattr(caught.value, "clients", [])) == outcome.get("clients", [])
            check_evidence(caught.value.evidence, outcome)
            return
        requests = server.close()
    assert requests == {}
    assert server.result().vector.tobytes() == raw(outcome["sum"])
    assert list(server.result().survivors) == outcome["survivors"]
    check_evidence(server.result().evidence, outcome)


def test_a_client_drops_in_each_of_the_five_steps_and_the_sum_is_there():
    for case in load("active_round", "rounds")[:2]:
        steps = [drop["step"] for drop in sorted(case["drops"], key=lambda drop: drop["step"])]
        assert steps == ["advertise", "confirm", "mask", "share", "unmask"]
        assert "sum" in case["outcome"]


def test_with_accept_there_are_six_steps_and_accusations_leave_clients_out():
    first, matched = load("active_accept_round", "rounds")
    assert {drop["step"] for drop in first["drops"]} == {step["step"] for step in first["steps"]}
    assert len(first["steps"]) == 6
    assert "sum" in first["outcome"]
    assert matched["outcome"]["accusations"] == [[0, 2], [1, 5], [3, 5]]
    assert matched["outcome"]["survivors"] == [1, 3, 4, 6, 7, 8]


# Once more, from the seeds alone


@cases(FILES, "rounds", "name")
def test_every_message_follows_from_the_seeds(case):
    reference = ActiveReference(case)
    assert [raw(entry["identity"]) for entry in case["clients"]] == list(reference.identities.values())
    keys = [key for _, key in charter_of(case["charter"])["members"]]
    assert [identity_of(seed) for seed in reference.identities.values()] == keys
    for step in case["steps"]:
        assert [exchange["client"] for exchange in step["exchanges"]] == reference.asked(step["step"])
        for exchange in step["exchanges"]:
            request, reply = reference.exchange(step["step"], exchange["client"])
            assert request.hex() == exchange["request"]
            assert exchange["reply"] in (None, reply and reply.hex())


@cases(FILES, "rounds", "name")
def test_sum_is_the_plain_sum_of_the_survivors(case):
    if "failure" in case["outcome"]:
        assert "sum" not in case["outcome"]
        return
    bits = charter_of(case["charter"])["bits"]
    (survivors,) = [members_after(step) for step in case["steps"] if step["step"] == "mask"]
    vectors = [words_of(raw(case["clients"][i]["vector"]), bits) for i in survivors]
    assert case["outcome"]["survivors"] == survivors
    total = [sum(column) % 2**bits for column in zip(*vectors, strict=True)]
    assert bytes_of(total, bits) == raw(case["outcome"]["sum"])


# active_refused.json

ROUND = load("active_round", "rounds")[0]
VICTIM = load("active_refused", "client")


def test_the_refused_belong_to_the_first_round():
    assert load("active_refused", "round") == ROUND["name"]


def steps_before(step):
    names = [each["step"] for each in ROUND["steps"]]
    return ROUND["steps"][: names.index(step) if step in names else len(names)]


def exchange_of(step, client):
    return next(exchange for exchange in step["exchanges"] if exchange["client"] == client)


@cases("active_refused", "requests", "reason")
def test_a_client_aborts(case):
    client = fresh_client(ROUND, ROUND["clients"][VICTIM])
    for step in steps_before(case["step"]):
        client.receive(raw(exchange_of(step, VICTIM)["request"]))
    with refused(case["error"]):
        client.receive(raw(case["request"]))
    assert case["error"] == FaultyServer.__name__
    assert client.done
    assert not vars(client._state)
    with pytest.raises(OrderError, match="aborted"):
        client.receive(raw(case["request"]))


@cases("active_refused", "complaints", "reason")
def test_a_client_complains(case):
    client = fresh_client(ROUND, ROUND["clients"][VICTIM])
    for step in steps_before("mask"):
        client.receive(raw(exchange_of(step, VICTIM)["request"]))
    assert client.receive(raw(case["request"])).hex() == case["reply"]
    assert client.done
    assert not vars(client._state)


@cases("active_refused", "replies", "reason")
def test_a_server_refuses(case):
    server, before = fresh_server(ROUND), steps_before(case["step"])
    server.open()
    for step in before:
        for exchange in replies_of(step):
            server.receive(exchange["client"], raw(exchange["reply"]))
        server.close()
    with refused(case["error"]) as caught:
        server.receive(VICTIM, raw(case["reply"]))
    assert caught.value.client == VICTIM
    assert VICTIM in server.waiting
    right = exchange_of(ROUND["steps"][len(before)], VICTIM)
    server.receive(VICTIM, raw(right["reply"]))
    assert VICTIM not in server.waiting
