"""The vectors of the agreement x25519-mlkem768, replayed by the package."""

import pytest

from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.protocol.server import Server
from second import raw, replies_of
from second_replay import bytes_in, without_texts
from test_vectors_refused import joined, outcome, server_of
from vector_files import cases, load, refused

pytestmark = pytest.mark.needs("ml-kem")
HYBRID = AGREEMENTS["x25519-mlkem768"]
FILES = ("hybrid_round", "hybrid_active_round")


@cases("hybrid", "kem", "seed")
def test_keys_and_secrets_of_the_kem(case):
    private = primitives.kem_private_key(raw(case["seed"]))
    assert primitives.public_key(private) == raw(case["public"])
    assert private.decapsulate(raw(case["ciphertext"])) == raw(case["secret"])


@cases("hybrid", "bad_keys", "reason")
def test_bad_keys_of_the_kem_are_refused(case):
    with refused(case["error"]):
        primitives.load_kem_key(raw(case["public"]))


def unsealed(case):
    both = raw(case["sender_keys"]), raw(case["recipient_keys"])
    ends = keys.Ends(case["sender"], case["recipient"], *both, case["masked"], raw(case["commitment"]))
    private = primitives.private_key(raw(case["recipient_private"]))
    agreed = primitives.agree(private, primitives.load_public_key(both[0][:32]))
    (secret,) = HYBRID.decapsulate_each(raw(case["recipient_seed"]), [raw(case["sealed"])])
    return HYBRID.unseal(agreed, secret, raw(case["sealed"]), raw(case["context"]), ends)


@cases("hybrid", "sealing", "sender", "recipient")
def test_sealed_texts_open(case):
    seed = HYBRID.pair_seed(raw(case["mask_secret"]), raw(case["context"]), case["sender"], case["recipient"])
    assert unsealed(case) == (raw(case["shares"]), seed)
    assert seed == raw(case["seed"])


@cases("hybrid", "bad_sealing", "reason")
def test_bad_texts_do_not_open(case):
    with refused(case["error"]):
        unsealed({**load("hybrid", "sealing")[0], **case})


@cases("hybrid", "deposits", "client", "other")
def test_deposits(case):
    given = raw(case["context"]), case["client"], case["other"]
    secret, seed = raw(case["mask_secret"]), raw(case["seed"])
    assert HYBRID.deposit(secret, seed, *given) == raw(case["deposit"])
    assert HYBRID.withdraw(secret, raw(case["deposit"]), *given) == seed


@cases("hybrid", "pair_secrets", "client", "other")
def test_pair_secrets(case):
    ids = case["client"], case["other"]
    halves = [keys.Half(*end) for end in zip(ids, *(map(raw, case[name]) for name in ENDS), strict=True)]
    assert HYBRID.pair_secret(raw(case["agreed"]), raw(case["context"]), *halves) == raw(case["pair_secret"])


ENDS = ("mask_keys", "seeds")


@cases(FILES, "rounds", "config")
def test_clients_give_the_same_replies_but_for_fresh_ciphertexts(case):
    shared = {name: case[name] for name in ("config", "charter", "task") if name in case}
    parties = {one["client"]: joined({**shared, **one}, {}) for one in case["clients"]}
    for step in case["steps"]:
        for each in replies_of(step):
            found, due = parties[each["client"]].receive(raw(each["request"])), raw(each["reply"])
            if step["step"] == "share":
                found, due = without_texts(found), without_texts(due)
            assert found == due


@cases(FILES, "rounds", "config")
def test_the_server_gives_the_same_requests_and_result(case):
    server, result = server_of(case), case["outcome"]
    assert isinstance(server, Server)
    requests = server.open()
    for step in case["steps"]:
        assert {client: request.hex() for client, request in requests.items()} == {
            each["client"]: each["request"] for each in step["exchanges"]
        }
        for each in replies_of(step):
            server.receive(each["client"], raw(each.get("delivered", each["reply"])))
        if step is case["steps"][-1] and "failure" in result:
            with refused(result["failure"]) as caught:
                server.close()
            assert caught.value.client == result["client"]
            return
        requests = server.close()
    assert server.result().vector.tobytes() == raw(result["sum"])
    assert list(server.result().survivors) == result["survivors"]


@cases("hybrid_round", "exchanges", "after", "reason")
def test_a_client_refuses_or_accuses(case):
    (party,) = load("hybrid_round", "parties")
    client = joined(party, {})
    for each in party["exchanges"][: case["after"]]:
        client.receive(raw(each["request"]))
    for step in case["steps"]:
        request = bytes_in(party, step["request"], "request")
        wanted = step["error"] if "error" in step else bytes_in(party, step["reply"], "reply")
        assert outcome(client.receive, request) == wanted


@pytest.mark.parametrize("file", FILES)
def test_somebody_drops_after_it_has_accepted(file):
    for case in load(file, "rounds"):
        assert [drop["step"] for drop in case["drops"]] == ["mask"]
