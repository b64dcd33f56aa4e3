"""Series with helpers: members and helpers come and go, and keys of rounds that are over are destroyed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assisted_rounds import AssistedPlay, Home, changed, read
from assisted_series import AssistedSeries
from ccesa.errors import (
    ConfigError,
    FaultyClient,
    FaultyServer,
    HelpersMissing,
    OrderError,
    TaskSpent,
    TooFewClients,
    UsageError,
)
from ccesa.guards import ASSISTED
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.round import run_series
from ccesa.protocol.series_client import SeriesHelper
from ccesa.simulate.enrolment import new_client
from rounds import configure
from series_rounds import kinds, opened, series_in_memory, survivors, task_of


def key_request(play: AssistedSeries, number: int, helper: int = 4) -> bytes:
    config = play.federation.charter.config(length=5, series_id=bytes(32), number=number)
    asked = m.HelperKeysRequest(context=config.context, client=helper, number=number.to_bytes(4, "little"))
    return asked.encode()


# What goes in which exchange


def test_a_round_costs_two_exchanges_and_members_speak_once():
    assert ASSISTED.stride == 2
    play, member, helper = AssistedSeries(), [], []
    while not play.series.finished:
        requests = play.open()
        member.append(kinds(requests[0]) if 0 in requests else [])
        helper.append(kinds(requests[4]) if 4 in requests else [])
        while requests:
            for party, request in requests.items():
                play.series.receive(party, play.ask(party, request))
            requests = dict(play.series.ask_helpers())
        play.series.close()
    assert member == [[], ["MaskForHelpersRequest"]] * 3 + [[]]
    assert helper == [
        ["HelperKeysRequest"],
        [],
        *[["UnmaskSumRequest", "HelperKeysRequest"], []] * 2,
        ["UnmaskSumRequest"],
    ]


def test_the_driver_of_a_series():
    play = AssistedSeries(rounds=4)
    ended = list(run_series(play.series, series_in_memory(play.members | play.helpers), task_of))
    for one in ended:
        play.check(one)
    assert survivors(ended) == dict.fromkeys(range(4), (0, 1, 2, 3))
    assert all(play.keys(helper) == {} for helper in (4, 5))
    assert all(member.rounds == () for member in play.members.values())


def test_a_driver_that_stops_early_leaves_no_keys():
    play = AssistedSeries(rounds=None)
    for one in run_series(play.series, series_in_memory(play.members | play.helpers), task_of):
        if one.number == 2:
            break
    assert all(play.keys(helper) == {} for helper in (4, 5))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_members_and_helpers_come_and_go(data):
    """Each round has the plain sum of those who were there, or the name of what was missing."""
    rounds = 5
    play, found = AssistedSeries(rounds=rounds), []
    absent = st.sets(st.integers(0, 5), max_size=3)
    missing = [data.draw(absent) for _ in range(2 * rounds + 1)]
    for gone in missing:
        if play.series.finished:
            break
        if data.draw(st.booleans()):
            helper = data.draw(st.sampled_from([4, 5]))
            play.helpers[helper] = play.new_helper(helper)  # its process was lost
        found += play.exchange(gone)
    assert [one.number for one in found] == sorted(one.number for one in found)
    assert {one.number for one in found} == set(range(rounds))
    for one in found:
        first, second, third = (missing[2 * one.number + place] for place in range(3))
        there = tuple(i for i in range(4) if i not in second)
        helpers_there = not ({4, 5} & (first | second | third))
        if one.aggregate is not None:
            assert one.aggregate.survivors == there
            assert helpers_there
        else:
            assert isinstance(one.failure, HelpersMissing | TooFewClients)
            assert not helpers_there or len(there) < 2


def test_a_lost_round_says_whether_its_task_is_used_up():
    """A helper that was asked for a sum may have answered, whatever the server heard."""
    play, found = AssistedSeries(rounds=4), []
    for missing in ((), {0, 1, 2}, (), (), {4}, (), (), (), ()):  # too few vectors; a helper misses an exchange
        found += play.exchange(missing)
    assert [(one.number, type(one.failure), one.released) for one in found] == [
        (0, TooFewClients, False),
        (1, HelpersMissing, True),
        (2, HelpersMissing, False),
        (3, type(None), True),
    ]


def test_a_task_can_be_tried_again_where_no_helper_was_asked():
    """By the members' memory as another attempt in this series, and by the helpers' as the first."""
    play = AssistedSeries(rounds=2)
    play.client = lambda i, config: _same_task(play, i, config)
    play.exchange()
    play.open = lambda: dict(play.series.open(task_of(0)))
    (lost,) = play.exchange({5})
    assert isinstance(lost.failure, HelpersMissing)
    play.exchange()
    play.exchange()
    (ended,) = play.exchange()
    assert ended.result().survivors == (0, 1, 2, 3)


def _same_task(play: AssistedSeries, i: int, config):
    options = {"task": task_of(0), "tasks": play.memories[i], "now": play.clock.now}
    return new_client(config, i, lambda: play.vector(i, config.number), play.federation, **options)


def test_a_task_that_was_answered_is_not_answered_again():
    play = AssistedSeries(rounds=2)
    play.client = lambda i, config: _same_task(play, i, config)
    play.open = lambda: dict(play.series.open(task_of(0)))
    for _ in range(4):
        play.exchange()
    (ended,) = play.exchange()
    assert isinstance(ended.failure, HelpersMissing)
    for helper in play.helpers.values():
        assert isinstance(helper.faults[1], TaskSpent)


# A helper of a series


def test_keys_of_old_rounds_are_destroyed():
    """Of the round before the last one the answer is kept, until the key of the next round is asked for."""
    play = AssistedSeries(rounds=4)
    kept = []
    while not play.series.finished:
        play.exchange()
        kept.append(play.keys(4))
    assert kept[:5] == [{0: True}, {0: True}, {0: False, 1: True}, {0: False, 1: True}, {1: False, 2: True}]
    assert all(list(one.values()).count(True) <= 1 for one in kept)
    play.helpers[4].receive(envelope.pack([]))
    assert play.keys(4) == {}


def test_a_helper_with_its_folder_goes_on_after_every_message(tmp_path):
    """A new process for each envelope: what counts is in the folder."""
    play = AssistedSeries(rounds=4, homes=[Home(tmp_path / "4"), Home(tmp_path / "5")])
    requests = {}

    def ask(party, request):
        if party in play.helpers:
            requests.setdefault(party, []).append(request)
            return play.new_helper(party).receive(request)
        return play.members[party].receive(request)

    play.ask = ask
    found = []
    while not play.series.finished:
        found += play.exchange()
    assert survivors(found) == dict.fromkeys(range(4), (0, 1, 2, 3))
    left = play.keys(4)
    assert sum(left.values()) == 0
    last = play.new_helper(4)
    answered = opened(last.receive(requests[4][-1]))
    assert [type(read(one)) for one in answered] == [m.UnmaskSumReply]


def test_a_restarted_helper_destroys_the_keys_of_rounds_that_were_lost(tmp_path):
    """Also those of which this process knows nothing."""
    play = AssistedSeries(rounds=None, homes=[Home(tmp_path / "4"), Home(tmp_path / "5")])
    for number in range(5):
        helper = play.new_helper(4)
        helper.receive(envelope.pack([key_request(play, number)]))
        assert play.keys(4).keys() <= {number - 1, number}


def test_a_helper_answers_in_any_order():
    play = AssistedSeries(rounds=3)
    play.exchange()
    play.exchange()
    question = play.open()[4]
    first, second = opened(question)
    helper = play.helpers[4]
    turned = helper.receive(envelope.pack([second, first]))
    assert sorted(opened(turned)) == sorted(opened(helper.receive(question)))
    assert opened(helper.receive(question)) == opened(helper.receive(question))


def test_a_refused_message_does_not_keep_the_others_back():
    play = AssistedSeries()
    play.exchange()
    play.exchange()
    first, second = opened(play.open()[4])
    reply = play.helpers[4].receive(envelope.pack([changed(first, client=5), second]))
    assert kinds(reply) == ["HelperKeysReply"]
    assert list(play.helpers[4].faults) == [0]
    assert "expected a message for helper 4" in str(play.helpers[4].faults[0])
    assert kinds(play.helpers[4].receive(envelope.pack([first]))) == ["UnmaskSumReply"]
    assert not play.helpers[4].faults


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"\0", "after the last message"),
        (bytes(8), "a message of 0 bytes"),
        (envelope.pack([b"x"]), "says no number"),
        (b"\xff" * 8, "a message of"),
    ],
)
def test_bytes_that_are_no_envelope(data, match):
    with pytest.raises(FaultyServer, match=match):
        AssistedSeries().helpers[4].receive(data)


def test_messages_of_another_series_and_of_members():
    play = AssistedSeries()
    good = key_request(play, 0)
    for bad, match in (
        (changed(good, context=bytes(32)), "another series"),
        (changed(good, number=b"\1\0\0\0"), "another series"),
        (changed(good, number=b"\0\0\0"), "number: expected 4 bytes"),
        (AssistedPlay().until("mask").members[0].receive(AssistedPlay().until("mask").requests[0]), "says no number"),
        (good[:-1], "not a message"),
    ):
        with pytest.raises(FaultyServer, match=match):
            play.helpers[4].receive(envelope.pack([bad]))
    with pytest.raises(UsageError, match="must be bytes"):
        play.helpers[4].receive("text")
    assert play.helpers[4].receive(envelope.pack([good]))


def test_a_helper_that_stops():
    play = AssistedSeries()
    play.exchange()
    assert play.keys(4) == {0: True}
    with play.helpers[4]._exclusive, pytest.raises(OrderError, match="still at work"):
        play.helpers[4].receive(b"")
    play.helpers[4].stop()
    assert play.keys(4) == {}


def test_a_helper_makes_only_helpers():
    play = AssistedSeries()
    wrong = SeriesHelper(play.config, lambda config: object())
    wrong.receive(envelope.pack([key_request(play, 0)]))
    assert "Helper" in str(wrong.faults[0])


def test_only_a_configuration_of_a_series():
    with pytest.raises(ConfigError, match="accept"):
        SeriesHelper(configure(4), lambda config: None)


# A member of a series


def test_a_member_that_misses_rounds_comes_back():
    play, found = AssistedSeries(rounds=4), []
    for exchange in range(9):
        found += play.exchange({2} if exchange in (1, 3) else ())
    assert survivors(found) == {0: (0, 1, 3), 1: (0, 1, 3), 2: (0, 1, 2, 3), 3: (0, 1, 2, 3)}


def test_a_member_masks_once_for_each_number():
    play = AssistedSeries()
    play.exchange()
    request = play.open()[0]
    first = play.members[0].receive(request)
    assert len(opened(first)) == 1
    assert opened(play.members[0].receive(request)) == []  # the transport repeats it
    clone = play.new_member(0)  # the same memory, another process
    assert opened(clone.receive(request)) == []
    assert "another process" in str(clone.faults[0])


def test_a_member_takes_no_exchange_that_is_over():
    play = AssistedSeries()
    play.exchange()
    old = play.open()[0]
    play.members[0].receive(old)
    for party, request in dict(play.series.ask_helpers()).items():
        play.series.receive(party, play.ask(party, request))
    there = AssistedSeries()
    for _ in range(3):
        there.exchange()
    new = there.open()[0]
    play.members[0].receive(new)
    with pytest.raises(FaultyServer):
        play.members[0].receive(old)


def test_faults_of_one_round_leave_the_others():
    play = AssistedSeries()
    play.exchange()
    play.exchange()
    request = play.open()[4]
    first, second = opened(play.helpers[4].receive(request))
    with pytest.raises(FaultyClient):
        play.series.receive(4, envelope.pack([changed(first, signature=bytes(64)), second]))
    assert 4 in play.series.waiting
    play.series.receive(4, envelope.pack([first]))
    assert 4 not in play.series.waiting


def test_late_confirmations_cost_nothing_in_a_series():
    play = AssistedSeries()
    play.exchange()
    for party, request in play.open().items():
        play.series.receive(party, play.ask(party, request))
    asked = dict(play.series.ask_helpers())
    play.series.receive(5, play.ask(5, asked[5]))
    late = play.ask(4, asked[4])
    play.series.close()
    play.series.open()
    with pytest.raises(FaultyClient, match="not in flight"):
        play.series.receive(4, late)
