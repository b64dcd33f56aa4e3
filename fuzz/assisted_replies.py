"""Replies of lying members and helpers to a server with helpers. The first byte chooses the step.

Everything in a reply is signed by its sender, or under a tag that is: only the honest bytes are taken.
"""

from functools import cache

from ccesa.errors import FaultyClient
from fuzz import assisted_stage as stage


def one(data: bytes) -> None:
    if not data:
        return
    place = stage.REPLIES[data[0] % len(stage.REPLIES)]
    server, honest = _kept(place)
    who = stage.MEMBER if place == "mask" else stage.HELPER
    before = server.taken, server.waiting, server.held
    try:
        server.receive(who, data[1:])
    except FaultyClient as fault:
        if fault.client != who or (server.taken, server.waiting, server.held) != before:
            raise AssertionError("the wrong one is blamed, or a refused reply has changed something") from fault
        return
    _kept.cache_clear()  # the next input gets a server that has not heard this reply
    if data[1:] != honest:
        raise AssertionError("a reply that was taken, and is not that of its sender")


@cache
def _kept(place: str) -> stage.Stand:
    return stage.new_stand(place)
