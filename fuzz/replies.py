"""Replies of a lying client to a server in each step. The first byte chooses the guard and the step."""

import copy
from typing import Any

import numpy as np

from ccesa.errors import FaultyClient
from ccesa.protocol.server import Server
from fuzz import stage

WHO = 0
CHANGING = (dict, set, list, np.ndarray)


def one(data: bytes) -> None:
    if not data:
        return
    guard, place = stage.PLACES[data[0] % len(stage.PLACES)]
    server = stage.stand(guard, place).server
    before = _state(server)
    try:
        server.receive(WHO, data[1:])
    except FaultyClient as fault:
        if fault.client != WHO or WHO not in server.waiting:
            raise AssertionError("the wrong one is blamed, or its reply is not due any more") from fault
        if server._total.tobytes() != before["_total"].tobytes():
            raise AssertionError("a refused reply is in the sum") from fault
        return
    if WHO in server.waiting:
        raise AssertionError("a reply that was taken and is still due")
    vars(server).update(before)  # as if it had never come, for the next input


def _state(server: Server) -> dict[str, Any]:
    """Copies of what a reply can change."""
    found = vars(server).items()
    return {name: copy.copy(value) for name, value in found if isinstance(value, CHANGING)}
