"""The vectors of the guard ``assisted``: charters, messages, check words, rounds, series, and what must be refused."""

import numpy as np
import pytest

from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.crypto import check_words
from ccesa.errors import CcesaError, OrderError
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import ANSWER, QUESTION, Entry, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient, SeriesHelper
from ccesa.protocol.server import Server
from second import LABELS, Stream, bytes_of, hashed, raw, replies_of, words_of
from second_active import charter_digest, charter_encoding, charter_of, config_encoding, identity_of
from second_assisted_replay import bytes_in, outcome_of, party_of
from test_vectors_active import check_evidence
from test_vectors_refused import joined, outcome, tell
from vector_files import cases, load, refused

hybrid = pytest.mark.needs("ml-kem")
ROUNDS = ("assisted_round", "assisted_hybrid")
TRIED = ("refused_assisted", "refused_helpers", "assisted_hybrid")

# assisted_messages.json


@cases("assisted_messages", "charters", "name")
def test_charter(case):
    charter, text = Charter.parse(case["text"]), case["text"]
    assert charter.encode() == charter_encoding(text) == raw(case["encoding"])
    assert charter.digest == charter_digest(text) == raw(case["digest"])
    assert str(charter) == text
    assert charter.guard.name == "assisted"
    round = {name: case[name] for name in ("number", "length", "accept")} | {"series_id": raw(case["series_id"])}
    config = charter.config(**round)
    assert config.encode() == config_encoding(text, **round) == raw(case["config"])
    assert config.context == hashed(LABELS["context"], raw(case["config"])) == raw(case["context"])
    assert charter.decode(raw(case["config"])) == config
    assert len(config.helper_ids) == len(charter_of(text)["helpers"])


PLAIN = load("assisted_messages", "charters")[0]


@cases("assisted_messages", "same", "reason")
def test_the_same_charter_in_other_words(case):
    assert Charter.parse(case["text"]).digest == charter_digest(case["text"]) == raw(PLAIN["digest"])


@cases("assisted_messages", "bad_charters", "reason")
def test_bad_charter_is_refused(case):
    with refused(case["error"]):
        Charter.parse(case["text"])


@cases("assisted_messages", "bad_configurations", "reason")
def test_bad_configuration_is_refused(case):
    with refused(case["error"]):
        Charter.parse(PLAIN["text"]).decode(raw(case["encoding"]))


@cases("assisted_messages", "bad_messages", "reason")
def test_bad_message_is_refused(case):
    with refused(case["error"]):
        m.decode(raw(case["encoding"]), case["most"])


@cases("assisted_messages", "check_words", "generator", "bits", "length")
def test_check_words(case):
    vector = words.from_bytes(Stream(raw(case["seed"]))(case["length"] * case["bits"] // 8), case["bits"])
    found = check_words.make(vector, raw(case["context"]), case["generator"])
    assert found.tobytes() == raw(case["check_words"])


def test_check_words_of_several_rows_are_among_them():
    every = load("assisted_messages", "check_words")
    assert {one["bits"] for one in every if one["length"] > 2 * check_words.COLUMNS} == {16, 32}
    assert {one["bits"] for one in every} == {8, 16, 32, 64}


# assisted_round.json and assisted_hybrid.json: replayed by the package


def party(entry, memory=None, clock=None):
    """A member or a helper from an entry in the form of refused_assisted.json."""
    if not entry.get("helps"):
        return joined(entry, memory or ProcessMemory())
    charter = Charter.parse(entry["charter"])
    given = {"memory": memory or ProcessMemory(), "keys": ProcessKeys(), "random": Stream(raw(entry["seed"]))}
    clock = clock or (lambda: entry["now"])
    return Helper(charter.decode(raw(entry["config"])), Identity(raw(entry["identity"])), charter, clock=clock, **given)


def encapsulates(entry):
    """Whether its replies are others each time."""
    return "x25519-mlkem768" in entry["charter"] and not entry.get("helps")


def round_cases(*files):
    every = [
        pytest.param(one, id=one["name"], marks=[hybrid] * ("hybrid" in file))
        for file in files
        for one in load(file, "rounds")
    ]
    return pytest.mark.parametrize("case", every)


@round_cases(*ROUNDS)
def test_members_and_helpers_give_the_same_replies(case):
    entries = {one["client"]: party_of(case, one) for one in case["clients"] + case["helpers"]}
    parties = {client: party(entry) for client, entry in entries.items()}
    assert [parties[one["client"]].helper for one in case["helpers"]] == [one["client"] for one in case["helpers"]]
    for step in case["steps"]:
        for each in replies_of(step):
            found, due = parties[each["client"]].receive(raw(each["request"])), raw(each["reply"])
            if encapsulates(entries[each["client"]]):
                found, due = len(found), len(due)
            assert found == due


def server_of(case):
    charter = Charter.parse(case["charter"])
    return Server(charter.decode(raw(case["config"])), charter, task=raw(case["task"]), now=case["now"])


@round_cases(*ROUNDS)
def test_the_server_gives_the_same_requests_and_result(case):
    server, result = server_of(case), case["outcome"]
    requests = server.open()
    for step in case["steps"]:
        assert server.step.name == step["step"]
        asked = {one["client"]: one["request"] for one in step["exchanges"] if "ahead" not in one}
        assert {client: request.hex() for client, request in requests.items()} == asked
        beside = {}
        for each in step["exchanges"]:
            if "ahead" in each:
                beside |= server.ask_helpers()
                assert beside.pop(each["client"]).hex() == each["request"]
            if each["reply"] is not None:
                server.receive(each["client"], raw(each.get("delivered", each["reply"])))
        assert beside == server.ask_helpers() == {}
        if step is case["steps"][-1] and "failure" in result:
            assert step["step"] == result["step"]
            with refused(result["failure"]) as caught:
                server.close()
            assert list(getattr(caught.value, "helpers", [])) == result.get("helpers", [])
            check_evidence(caught.value.evidence, result)
            return
        requests = server.close()
    assert requests == {}
    assert server.result().vector.tobytes() == raw(result["sum"])
    assert list(server.result().survivors) == result["survivors"]
    check_evidence(server.result().evidence, result)


@round_cases(*ROUNDS)
def test_sum_is_the_plain_sum_of_the_survivors(case):
    agreed, result = charter_of(case["charter"]), case["outcome"]
    assert [identity_of(raw(one["identity"])) for one in case["clients"]] == [key for _, key in agreed["members"]]
    assert [identity_of(raw(one["identity"])) for one in case["helpers"]] == [key for _, key in agreed["helpers"]]
    if "sum" in result:
        vectors = [words_of(raw(case["clients"][i]["vector"]), agreed["bits"]) for i in result["survivors"]]
        total = [sum(column) % 2 ** agreed["bits"] for column in zip(*vectors, strict=True)]
        assert bytes_of(total, agreed["bits"]) == raw(result["sum"])


def test_all_that_can_become_of_a_round_is_there():
    every = load("assisted_round", "rounds")
    failures = {(one["outcome"].get("failure"), one["outcome"].get("step")) for one in every}
    assert failures == {
        (None, None),
        *(("HelpersMissing", step) for step in ("key", "mask", "unmask")),
        ("TooFewClients", "mask"),
        ("CorruptSum", "unmask"),
    }
    agreed = [charter_of(one["charter"]) for one in every if "sum" in one["outcome"]]
    assert {one["bits"] for one in agreed} == {8, 16, 32, 64}
    assert {one["generator"] for one in agreed} == {"aes128-ctr", "chacha20"}
    assert any(outcome_of(one)[2:] == ([(6, 1), (7, 4), (8, 4)],) for one in every)
    assert {charter_of(one["charter"])["agreement"] for one in load("assisted_hybrid", "rounds")} == {"x25519-mlkem768"}


# refused_assisted.json and refused_helpers.json, and what assisted_hybrid.json has of them


def noted(memory, entries):
    """Have these in a helper's memory, and nothing else."""
    memory._kept.clear()
    for one in entries:
        if one["about"] == "question":
            memory.add(Entry(QUESTION, raw(one["context"]) + raw(one["question"])))
        else:
            memory.add(Entry(ANSWER, raw(one["charter"]) + raw(one["task"]) + raw(one["context"])))


PARTIES = {one["name"]: one for file in TRIED for one in load(file, "parties")}


def tried_cases():
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(
                one, id=f"{one['party']}, {one['after']}: {one['reason']}", marks=[hybrid] * ("hybrid" in file)
            )
            for file in TRIED
            for one in load(file, "exchanges")
        ],
    )


@tried_cases()
def test_a_party_answers_refuses_and_repeats(case):
    entry, memory = PARTIES[case["party"]], ProcessMemory()
    now = [entry["now"]]
    found = party(entry, memory, lambda: now[0])
    say = noted if entry.get("helps") else tell
    for each in entry["exchanges"][: case["after"]]:
        found.receive(raw(each["request"]))
    for step in case["steps"]:
        now[0] = step.get("now", now[0])
        if "memory" in step:
            say(memory, step["memory"])
        request, said = bytes_in(entry, step, "request"), None
        said = outcome(found.receive, request)
        if "error" in step:
            assert said == step["error"]
        elif encapsulates(entry):
            assert len(said) == len(bytes_in(entry, step, "reply"))
        else:
            assert said == bytes_in(entry, step, "reply")
        if said == "FaultyServer" and not entry.get("helps"):
            assert not vars(found._state)
            with pytest.raises(OrderError, match="aborted"):
                found.receive(request)


@cases("refused_assisted", "joining", "reason")
def test_a_party_is_refused_before_the_first_request_or_is_not(case):
    if "error" not in case:
        party(case)
        return
    with refused(case["error"]):
        party(case)


HELPED = {one["name"]: one for one in load("assisted_round", "rounds")}


@cases("refused_assisted", "replies", "reason")
def test_a_server_refuses_and_goes_on(case):
    told, sender, left = HELPED[case["round"]], case["sender"], case["after"]
    server = server_of(told)
    server.open()
    for place, each in enumerate(one for step in told["steps"] for one in [None, *step["exchanges"]]):
        if each is None:
            if place:
                server.close()
            continue
        if "ahead" in each:
            server.ask_helpers()
        if not left:
            break
        server.receive(each["client"], raw(each["reply"]))
        left -= 1
    with refused(case["error"]) as caught:
        server.receive(sender, raw(case["reply"]))
    assert caught.value.client == sender
    assert (sender in server.waiting) is case["waiting"]
    if each["client"] == sender:  # its own reply is still taken
        server.receive(sender, raw(each["reply"]))
        assert sender not in server.waiting


# assisted_series.json

SERIES = {case["name"]: case for case in load("assisted_series", "series")}


def series_party(case, who):
    charter = Charter.parse(case["charter"])
    first = charter.decode(raw(case["config"]))
    entry = next(one for one in case["clients"] + case["helpers"] if one["client"] == who)
    identity, memory, keys = Identity(raw(entry["identity"])), ProcessMemory(), ProcessKeys()

    def random(config):
        return Stream(raw(entry["seeds"][config.number - first.number]))

    def member(config):
        place = config.number - first.number
        vector = np.frombuffer(raw(entry["vectors"][place]), words.dtype(config.bits))
        given = {"task": raw(case["tasks"][place]), "random": random(config), "now": case["now"]}
        return ActiveClient(config, identity, charter, vector, tasks=None, **given)

    def helper(config):
        given = {"memory": memory, "keys": keys, "random": random(config), "clock": lambda: case["now"]}
        return Helper(config, identity, charter, **given)

    return SeriesClient(first, member) if "vectors" in entry else SeriesHelper(first, helper)


@cases("assisted_series", "series", "name")
def test_parties_give_the_same_answers_in_a_series(case):
    for entry in case["clients"] + case["helpers"]:
        found = series_party(case, entry["client"])
        for each in envelopes_of(case, entry["client"]):
            if each["reply"] is not None:
                assert found.receive(raw(each["request"])).hex() == each["reply"]


def envelopes_of(case, who):
    return [one for each in case["exchanges"] for one in each["envelopes"] if one["client"] == who]


@cases("assisted_series", "series", "name")
def test_the_server_gives_the_same_envelopes_and_sums(case):
    charter = Charter.parse(case["charter"])
    config = charter.decode(raw(case["config"]))
    series = Series(config, server=lambda config: Server(config, charter, now=case["now"]), rounds=len(case["tasks"]))
    for exchange in case["exchanges"]:
        masking = series.masking
        requests = {**series.open(m.NO_TASK if masking is None else raw(case["tasks"][masking - config.number]))}
        for each in exchange["envelopes"]:
            if "ahead" in each:
                requests |= series.ask_helpers()
            assert requests.pop(each["client"]).hex() == each["request"]
            if each["reply"] is not None:
                series.receive(each["client"], raw(each["reply"]))
        assert requests == {}
        ended = [
            (one.number, one.result().vector.tobytes().hex(), list(one.result().survivors)) for one in series.close()
        ]
        assert ended == [(one["number"], one["sum"], one["survivors"]) for one in exchange["ended"]]
    assert series.finished


@cases("assisted_series", "refused", "client", "reason")
def test_a_party_refuses_envelopes_answers_in_part_and_repeats(case):
    told = SERIES[case["series"]]
    mine, found = {"exchanges": envelopes_of(told, case["client"])}, series_party(told, case["client"])
    for each in mine["exchanges"][: case["after"]]:
        found.receive(raw(each["request"]))
    for step in case["steps"]:
        request = bytes_in(mine, step, "request")
        if "error" in step:
            with pytest.raises(CcesaError) as caught:
                found.receive(request)
            assert type(caught.value).__name__ == step["error"]
        else:
            assert found.receive(request) == bytes_in(mine, step, "reply")
