"""Rounds with helpers that stand still, for the harnesses that feed a member, a helper or a server.

Everything is drawn from fixed seeds, so that an input means the same in every run.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.series_client import SeriesHelper
from ccesa.protocol.server import Server
from ccesa.simulate import enrolment

CLIENTS, HELPERS, NOW = 4, 2, 1_800_000_000.0
IDENTITIES = [Identity(bytes([place + 1]) * 32) for place in range(CLIENTS)]
HELPING = [Identity(bytes([place + 101]) * 32) for place in range(HELPERS)]
CHARTER = enrolment.make_charter(IDENTITIES, helpers=HELPING, bits=16, min_survivors=3)
FEDERATION = enrolment.Enrolment(identities=IDENTITIES, helpers=HELPING, charter=CHARTER)
CONFIG = CHARTER.config(length=3, series_id=bytes(32))
#: The first member, and the first helper.
MEMBER, HELPER = 0, CLIENTS
#: A server stands still while one of these replies is due; a helper before one of these requests.
REPLIES = ("key", "mask", "confirm", "unmask")
REQUESTS = ("member", "key", "confirm", "unmask", "answered", "series")


class Home(NamedTuple):
    """What outlives a helper's process."""

    memory: ProcessMemory
    keys: ProcessKeys


def new_member(i: int) -> Client:
    vector = np.full(CONFIG.length, i, np.uint16)
    random = np.random.default_rng(i).bytes
    return enrolment.new_client(CONFIG, i, vector, FEDERATION, random=random, now=NOW)


def new_helper(place: int, home: Home) -> Helper:
    random = np.random.default_rng(100 + place).bytes
    kept = {"memory": home.memory, "keys": home.keys}
    return enrolment.new_helper(CONFIG, place, FEDERATION, random=random, clock=lambda: NOW, **kept)


def new_home() -> Home:
    return Home(ProcessMemory(), ProcessKeys())


class Stand(NamedTuple):
    """A server, and the due reply of the first member or helper, which it has not heard."""

    server: Server
    reply: bytes


def new_stand(place: str) -> Stand:
    """A round in which this reply is due."""
    server = enrolment.new_server(CONFIG, FEDERATION, now=NOW)
    helpers = {CLIENTS + place: new_helper(place, new_home()) for place in range(HELPERS)}
    members = {i: new_member(i) for i in range(CLIENTS)}
    requests = dict(server.open())
    for name in REPLIES:
        replies = {one: (helpers | members)[one].receive(request) for one, request in requests.items()}
        first = min(replies)
        if name == place:
            return Stand(server, replies[first])
        for one, reply in replies.items():
            server.receive(one, reply)
        requests = dict(server.ask_helpers() if name == "mask" else server.close())
    raise ValueError(place)


@cache
def requests() -> dict[str, bytes]:
    """The honest request to the first member, and each to the first helper; all in one envelope for a series."""
    server, homes = enrolment.new_server(CONFIG, FEDERATION, now=NOW), [new_home() for _ in range(HELPERS)]
    helpers = {CLIENTS + place: new_helper(place, home) for place, home in enumerate(homes)}
    key = dict(server.open())
    for one, request in key.items():
        server.receive(one, helpers[one].receive(request))
    mask = dict(server.close())
    for one, request in mask.items():
        server.receive(one, new_member(one).receive(request))
    confirm = dict(server.ask_helpers())
    for one, request in confirm.items():
        server.receive(one, helpers[one].receive(request))
    unmask = dict(server.close())[HELPER]
    each = {"member": mask[MEMBER], "key": key[HELPER], "confirm": confirm[HELPER], "unmask": unmask}
    return each | {"answered": unmask, "series": envelope.pack([key[HELPER], confirm[HELPER], unmask])}


def home_before(place: str) -> Home:
    """What a helper has when this request is due."""
    home, order = new_home(), ("key", "confirm", "unmask", "answered")
    if place in order:
        helper = new_helper(0, home)
        for name in order[: order.index(place)]:
            helper.receive(requests()[name])
    return home


def new_series_helper(home: Home) -> SeriesHelper:
    def one(config: RoundConfig) -> Helper:
        if config != CONFIG:
            return enrolment.new_helper(config, 0, FEDERATION, clock=lambda: NOW, **home._asdict())
        return new_helper(0, home)

    return SeriesHelper(CONFIG, one)


def every_message() -> dict[str, bytes]:
    """Every message of such a round, by its name."""
    found = {name: request for name, request in requests().items() if name not in ("answered", "series")}
    found |= {f"{name}-reply": new_stand(name).reply for name in REPLIES}
    return {f"assisted-{name}": message for name, message in found.items()}


def is_honest(request: m.UnmaskSumRequest) -> bool:
    """Tell whether a question is about records that members have signed, each in its own name."""
    return set(_records(request)) <= set(_records(m.decode(requests()["unmask"], 1 << 20)))


def _records(request: Any) -> list[tuple[int, bytes]]:
    ids = m.unpack_ids("members", request.members, CLIENTS).tolist()
    size = m.record_bytes(CONFIG.agreement, HELPERS)
    return list(zip(ids, m.items("records", request.records, len(ids), size), strict=True))
