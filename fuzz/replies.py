"""Replies of a lying client to a server in each step. The first byte chooses the place."""

import copy
from dataclasses import replace
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
    server = stage.stand(stage.chosen(data)).server
    before, total = _changing(server), _total(server)
    try:
        server.receive(WHO, data[1:])
    except FaultyClient as fault:
        if fault.client != WHO or WHO not in server.waiting:
            raise AssertionError("the wrong one is blamed, or its reply is not due any more") from fault
        if _total(server) != total:
            raise AssertionError("a refused reply is in the sum") from fault
        return
    if WHO in server.waiting:
        raise AssertionError("a reply that was taken and is still due")
    vars(server).update(before)  # as if it had never come, for the next input


def _changing(server: Server) -> dict[str, Any]:
    """Copies of what a reply can change: what the server keeps, and what grows in its state."""
    found = {name: copy.copy(value) for name, value in vars(server).items() if isinstance(value, CHANGING)}
    grows = {name: copy.copy(getattr(server._state, name, None)) for name in ("total", "public_keys")}
    state = {name: value for name, value in grows.items() if value is not None}
    return {**found, "_state": replace(server._state, **state)}


def _total(server: Server) -> bytes:
    return getattr(server._state, "total", np.zeros(0)).tobytes()
