"""Requests of a lying server to a member and to a helper, in each state. The first byte chooses the place.

A member answers the honest request alone. A helper refuses a request and has written nothing, or answers it.
"""

from ccesa.errors import FaultyServer, TaskSpent
from ccesa.memory import ANSWER, QUESTION
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from fuzz import assisted_stage as stage

KINDS: dict[type[m.Message], type[m.Message]] = {
    m.HelperKeysRequest: m.HelperKeysReply,
    m.ConfirmBoxesRequest: m.ConfirmBoxesReply,
}


def one(data: bytes) -> None:
    if not data:
        return
    place = stage.REQUESTS[data[0] % len(stage.REQUESTS)]
    if place == "member":
        _feed_member(data[1:])
    elif place == "series":
        _feed_series(data[1:])
    else:
        _feed_helper(place, data[1:])


def _feed_member(request: bytes) -> None:
    try:
        stage.new_member(stage.MEMBER).receive(request)
    except FaultyServer:
        return
    if request != stage.requests()["member"]:
        raise AssertionError("a member that masks for other keys, for another task or in another round")


def _feed_helper(place: str, request: bytes) -> None:
    home = stage.home_before(place)
    before = _written(home)
    try:
        reply = stage.new_helper(0, home).receive(request)
    except (FaultyServer, TaskSpent):
        if _written(home) != before:
            raise AssertionError("a refused request that left something on the disk") from None
        return
    _check_answer(place, request, reply)


def _check_answer(place: str, request: bytes, reply: bytes) -> None:
    said, asked = m.decode(reply, len(reply)), m.decode(request, len(request))
    if said.client != stage.HELPER or type(said) is not KINDS.get(type(asked), m.UnmaskSumReply):
        raise AssertionError("an answer that is not the one to this request")
    if not isinstance(asked, m.UnmaskSumRequest):
        return
    if len(asked.members) < m.ID_BYTES * stage.CHARTER.min_survivors or not stage.is_honest(asked):
        raise AssertionError("a sum over too few members, or over records that nobody signed")
    if place == "answered" and request != stage.requests()["unmask"]:
        raise AssertionError("two questions of one round, both answered")


def _feed_series(data: bytes) -> None:
    helper = stage.new_series_helper(stage.new_home())
    try:
        reply = helper.receive(data)
    except FaultyServer:
        return
    messages = envelope.unpack(data)
    if envelope.pack(messages) != data:
        raise AssertionError("an envelope with two forms")
    if len(envelope.unpack(reply)) + len(helper.faults) < min(1, len(messages)):
        raise AssertionError("a message that got neither an answer nor a fault")


def _written(home: stage.Home) -> object:
    entries = sorted(entry for about in (QUESTION, ANSWER) for entry in home.memory.entries(about))
    return entries, home.keys.get(stage.CONFIG.context)
