"""Series of the vectors, replayed by the package: what clients answer, and what a server makes of it."""

import numpy as np
import pytest

from ccesa import words
from ccesa.agreement.agreement import TRUST
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.server import Server
from second import Stream, bytes_of, raw, words_of
from second_replay import bytes_in
from vector_files import cases, load

SERIES = {case["name"]: case for case in load("series", "series")}


def charter_of(case):
    return Charter.parse(case["charter"]) if "charter" in case else None


def config_of(case):
    charter, data = charter_of(case), raw(case["config"])
    return charter.decode(data) if charter else RoundConfig.decode(data)


def new_client(case, who):
    entry, first = case["clients"][who], config_of(case)

    def make(config):
        place = config.number - first.number
        vector = np.frombuffer(raw(entry["vectors"][place]), words.dtype(config.bits))
        given = {"task": raw(case["tasks"][place]), "random": Stream(raw(entry["seeds"][place]))}
        if "charter" not in case:
            return Client(config, who, vector, **given)
        identity = Identity(raw(entry["identity"]))
        return ActiveClient(config, identity, charter_of(case), vector, tasks=None, **given)

    return SeriesClient(first, make)


def envelopes_of(case, who):
    return [one for each in case["exchanges"] for one in each["envelopes"] if one["client"] == who]


@cases("series", "series", "name")
def test_clients_give_the_same_answers(case):
    for entry in case["clients"]:
        client = new_client(case, entry["client"])
        for each in envelopes_of(case, entry["client"]):
            if each["reply"] is not None:
                assert client.receive(raw(each["request"])).hex() == each["reply"]


@cases("series", "series", "name")
def test_the_server_gives_the_same_envelopes_and_sums(case):
    config, charter = config_of(case), charter_of(case)
    series = Series(config, server=lambda config: Server(config, charter or TRUST), rounds=len(case["tasks"]))
    for exchange in case["exchanges"]:
        masking = series.masking
        task = m.NO_TASK if masking is None else raw(case["tasks"][masking - config.number])
        told = {each["client"]: each["request"] for each in exchange["envelopes"]}
        assert {client: data.hex() for client, data in series.open(task).items()} == told
        for each in exchange["envelopes"]:
            if each["reply"] is not None:
                series.receive(each["client"], raw(each["reply"]))
        ended = [
            {
                "number": one.number,
                "sum": one.result().vector.tobytes().hex(),
                "survivors": list(one.result().survivors),
            }
            for one in series.close()
        ]
        assert ended == exchange["ended"]
    assert series.finished


@cases("series", "series", "name")
def test_sums_are_the_plain_sums_of_the_survivors(case):
    first, bits = config_of(case).number, config_of(case).bits
    ended = [one for exchange in case["exchanges"] for one in exchange["ended"]]
    assert [one["number"] - first for one in ended] == [0, 1, 2]
    for place, one in enumerate(ended):
        vectors = [words_of(raw(case["clients"][i]["vectors"][place]), bits) for i in one["survivors"]]
        total = [sum(column) % 2**bits for column in zip(*vectors, strict=True)]
        assert bytes_of(total, bits).hex() == one["sum"]
        assert len(one["survivors"]) == len(case["clients"]) - 1  # somebody has missed an exchange


def test_a_round_costs_two_exchanges_and_three():
    curious, active = SERIES.values()
    assert [len(case["exchanges"]) for case in (curious, active)] == [2 * 2 + 5, 2 * 3 + 6]


@cases("series", "refused", "series", "after", "reason")
def test_a_client_refuses_answers_in_part_and_repeats(case):
    told = SERIES[case["series"]]
    mine, client = envelopes_of(told, case["client"]), new_client(told, case["client"])
    for each in mine[: case["after"]]:
        client.receive(raw(each["request"]))
    for step in case["steps"]:
        request = bytes_in({"exchanges": mine}, step["request"], "request")
        before = client.rounds
        if "error" in step:
            with pytest.raises(CcesaError) as caught:
                client.receive(request)
            assert type(caught.value).__name__ == step["error"]
            assert client.rounds == before
        else:
            wanted = bytes_in({"exchanges": mine}, step["reply"], "reply")
            assert client.receive(request) == wanted
