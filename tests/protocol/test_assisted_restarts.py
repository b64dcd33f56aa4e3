"""Rounds with helpers that lose processes, requests or time: what is on the disk goes on, and nothing else does."""

import pytest

from ccesa.errors import FaultyClient, FaultyServer, HelpersMissing
from ccesa.helper_keys import FolderKeys, ProcessKeys
from ccesa.memory import FolderMemory, ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import KEY_MARGIN
from ccesa.protocol.log import RoundLog
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient, SeriesHelper
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import federate, new_client, new_helper, new_helpers, new_server
from rounds import inputs

NOW, DAY = 1_800_000_000.0, 86400
FEDERATION = federate(4, helpers=2, bits=16, colluders=1)
CHARTER = FEDERATION.charter
CONFIG = CHARTER.config(length=5)
VECTORS = inputs(CONFIG)


def members(now: float = NOW):
    return {i: new_client(CONFIG, i, VECTORS[i], FEDERATION, now=now) for i in range(4)}


def helpers(now: float = NOW, **options):
    return new_helpers(CONFIG, FEDERATION, clock=lambda: now, **options)


def take(server: Server, parties, requests) -> None:
    for party, request in requests.items():
        server.receive(party, parties[party].receive(request))


@pytest.fixture
def logged(tmp_path):
    """Makes a log of the same files again and again, as after a crash."""
    made = []

    def new() -> RoundLog:
        if made:
            made.pop().close()
        made.append(RoundLog(tmp_path / "log", counter=tmp_path / "counter"))
        return made[-1]

    yield new
    made.pop().close()


@pytest.mark.parametrize("later", [30 * DAY, -10], ids=["keys have expired", "clock is behind"])
def test_a_replay_does_not_look_at_the_clock_again(logged, later):
    parties = members() | helpers()
    server = new_server(CONFIG, FEDERATION, log=logged(), now=NOW)
    take(server, parties, server.open())
    requests = dict(server.close())
    again = new_server(CONFIG, FEDERATION, log=logged(), now=NOW + later)
    assert dict(again.replay()) == requests
    take(again, parties, requests)
    take(again, parties, again.ask_helpers())
    take(again, parties, again.close())
    again.close()
    assert again.result().survivors == (0, 1, 2, 3)


def test_a_replay_of_a_series_does_not_look_at_the_clock_again(logged):
    def series(now: float) -> Series:
        return Series(CONFIG, rounds=1, log=logged(), server=lambda c: new_server(c, FEDERATION, now=now))

    parties = {
        i: SeriesClient(CONFIG, lambda c, i=i: new_client(c, i, VECTORS[i], FEDERATION, now=NOW)) for i in range(4)
    }
    homes = {place: {"memory": ProcessMemory(), "keys": ProcessKeys()} for place in range(2)}
    parties |= {
        4 + a: SeriesHelper(CONFIG, lambda c, a=a: new_helper(c, a, FEDERATION, clock=lambda: NOW, **homes[a]))
        for a in range(2)
    }
    first = series(NOW)
    take(first, parties, first.open())
    first.close()
    requests = dict(first.open())
    again = series(NOW + 30 * DAY)
    assert dict(again.replay()) == requests
    take(again, parties, requests)
    take(again, parties, again.ask_helpers())
    assert again.close() == []
    take(again, parties, again.open())
    (ended,) = again.close()
    assert ended.result().survivors == (0, 1, 2, 3)


def test_a_server_that_follows_another_takes_keys_that_have_expired_since():
    """A hub that starts again takes what its store has; what comes from a helper now has to be in time."""

    def series() -> Series:
        return Series(CONFIG, rounds=1, server=lambda c: new_server(c, FEDERATION, now=NOW + 30 * DAY))

    parties = helpers()
    first, second = series(), series()
    numbers = {"context": CONFIG.context, "number": bytes(4)}
    shown = {one: parties[one].receive(m.HelperKeysRequest(client=one, **numbers).encode()) for one in parties}
    first.open()
    with pytest.raises(FaultyClient, match="has expired"):
        first.receive(4, envelope.pack([shown[4]]))
    second.open()
    with second.from_log():
        for helper, reply in shown.items():
            second.receive(helper, envelope.pack([reply]))
    assert second.close() == []
    assert second.open().keys() == {0, 1, 2, 3}


def test_boxes_that_helpers_were_asked_about_before_a_replay_are_asked_about_again(logged):
    parties = members() | helpers()
    server = new_server(CONFIG, FEDERATION, log=logged(), now=NOW)
    take(server, parties, server.open())
    requests = dict(server.close())
    take(server, parties, {0: requests[0], 1: requests[1]})
    lost = server.ask_helpers()
    server.receive(4, parties[4].receive(lost[4]))  # the request to helper 5 is lost
    take(server, parties, {2: requests[2]})
    again = new_server(CONFIG, FEDERATION, log=logged(), now=NOW)
    again.replay()
    assert again.held == 3
    asked = again.ask_helpers(again=True)
    assert asked.keys() == {4, 5}
    take(again, parties, {3: requests[3]})
    third = new_server(CONFIG, FEDERATION, log=logged(), now=NOW)  # the log says what was asked again
    third.replay()
    take(third, parties, asked)
    third.receive(5, parties[5].receive(lost[5]))  # late, and no harm
    assert (third.held, third.ask_helpers(again=True).keys()) == (1, {4, 5})
    take(third, parties, third.ask_helpers(again=True))
    assert third.ask_helpers(again=True) == {}
    assert third.awaited == set()
    take(third, parties, third.close())
    third.close()
    assert third.result().survivors == (0, 1, 2, 3)


def test_only_a_helper_that_was_asked_and_is_silent_is_missing():
    parties = members() | helpers()
    server = new_server(CONFIG, FEDERATION, now=NOW)
    take(server, parties, server.open())
    take(server, parties, server.close())
    first = server.ask_helpers()
    again = server.ask_helpers(again=True)
    assert dict(first) == dict(again)
    server.receive(4, parties[4].receive(again[4]))
    with pytest.raises(HelpersMissing) as missing:
        server.close()
    assert missing.value.helpers == (5,)


@pytest.mark.parametrize("behind", [0, 1, KEY_MARGIN])
def test_a_member_whose_clock_is_behind_takes_a_fresh_key(behind):
    parties = members(NOW - behind) | helpers()
    server = new_server(CONFIG, FEDERATION, now=NOW - behind)
    take(server, parties, server.open())
    take(server, parties, server.close())
    assert server.held == 4


def test_a_member_whose_clock_is_further_behind_does_not():
    parties = members(NOW - KEY_MARGIN - 1) | helpers()
    server = new_server(CONFIG, FEDERATION, now=NOW)
    take(server, parties, server.open())
    with pytest.raises(FaultyServer, match="would stay for longer than key_days"):
        parties[0].receive(server.close()[0])


def test_boxes_that_were_confirmed_under_a_key_that_is_gone_fit_no_more():
    """Another process of the helper sweeps the key while this one is alive."""
    keys = ProcessKeys()
    now = [NOW]
    parties = members() | helpers()
    parties[4] = new_helper(CONFIG, 0, FEDERATION, keys=keys, clock=lambda: now[0])
    server = new_server(CONFIG, FEDERATION, now=NOW)
    take(server, parties, server.open())
    take(server, parties, server.close())
    take(server, parties, server.ask_helpers())
    question = server.close()[4]
    now[0] += 7 * DAY
    keys.sweep(now[0])
    key = m.HelperKeysRequest(context=CONFIG.context, client=4, number=bytes(4)).encode()
    parties[4].receive(key)
    with pytest.raises(FaultyServer, match="its box does not fit"):
        parties[4].receive(question)


def test_a_helper_that_makes_a_key_destroys_those_that_have_expired(tmp_path):
    """Also of rounds that nobody goes on with, and that a process before has made."""
    now = [NOW]
    for number in range(3):
        config = CHARTER.config(length=5, series_id=CONFIG.series_id, number=number)
        options = {"memory": FolderMemory(tmp_path / "memory"), "keys": FolderKeys(tmp_path / "keys")}
        helper = new_helper(config, 0, FEDERATION, clock=lambda: now[0], **options)
        request = m.HelperKeysRequest(context=config.context, client=4, number=number.to_bytes(4, "little")).encode()
        helper.receive(request)
        now[0] += 4 * DAY
    assert len(list((tmp_path / "keys").glob("*.key"))) == 2
