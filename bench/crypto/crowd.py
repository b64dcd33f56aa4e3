"""A crowd costs one client under the guard ``active`` sets of all clients, and the circle of all of them.

The client, its charter and its neighbours' shares and signatures are real; the others have advertised.
"""

import time
from collections.abc import Callable
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import AGREEMENTS
from ccesa.graphs import Harary
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.simulate import Enrolment, federate
from ccesa.simulate.enrolment import new_client, new_server

CROWDS = (1_000, 100_000)
DEGREE, LENGTH, SAMPLES = 64, 1_000, 5


def compare() -> dict[str, Any]:
    """Return the milliseconds of each step, by the number of clients."""
    return {"degree": DEGREE, "length": LENGTH, "clients": {str(size): _steps(size) for size in CROWDS}}


def _steps(size: int) -> dict[str, float]:
    federation = federate(size, graph=Harary(degree=DEGREE))
    config = federation.charter.config(length=LENGTH)
    crowd = _Crowd(federation, config)
    times = list(islice((crowd.times_of(one) for one in range(size) if one not in crowd.shared), SAMPLES))
    return {step: median(one[step] for one in times) for step in times[0]}


class _Crowd:
    """Everyone has advertised, and stays to the end."""

    def __init__(self, federation: Enrolment, config: RoundConfig) -> None:
        self.federation, self.config = federation, config
        vector = np.zeros(LENGTH, words.dtype(config.bits))
        self.clients = [new_client(config, number, vector, federation) for number in range(config.clients)]
        self.server = new_server(config, federation)
        for number, request in self.server.open().items():
            self.server.receive(number, self.clients[number].receive(request))
        self.rosters = self.server.close()
        self.everyone = m.pack_set(np.ones(config.clients, bool))
        #: What clients have answered to step 1, which they do once.
        self.shared: dict[int, Any] = {}

    def times_of(self, number: int) -> dict[str, float]:
        """Run one client to the end; return the milliseconds of each step."""
        client, roster = self.clients[number], self._read(self.rosters[number])
        near = self._neighbours(number)
        what = (self.config.context, roster.root, self.everyone, m.NO_TASK)
        confirmed = signed_texts.confirmed_text(*what, self.everyone)
        requests: dict[str, Callable[[], bytes]] = {
            "share": lambda: self.rosters[number],
            "mask": lambda: self._texts(number, near),
            "confirm": lambda: self._request(m.ConfirmRequest, number, v3=self.everyone),
            "unmask": lambda: self._request(
                m.SignedUnmaskRequest,
                number,
                confirmed=bytes([1]) * len(near),
                signatures=b"".join(self.federation.identities[one].sign(confirmed) for one in near),
            ),
        }
        times = {}
        for step, make in requests.items():
            request, start = make(), time.process_time()
            reply = client.receive(request)
            times[step] = 1e3 * (time.process_time() - start)
            if step == "share":
                self.shared[number] = self._read(reply)
        return times

    def _neighbours(self, number: int) -> list[int]:
        graph = self.server.graph
        return [] if graph is None else graph.ids[graph.neighbours(graph.nodes[number])].tolist()

    def _texts(self, number: int, near: list[int]) -> bytes:
        """Show a client what its neighbours have sealed for it."""
        size = AGREEMENTS[self.config.agreement].text_bytes
        replies = [self._shared(other) for other in near]
        places = [self._neighbours(other).index(number) * size for other in near]
        return self._request(
            m.MaskAmongAtOnceRequest,
            number,
            v2=self.everyone,
            commitments=b"".join(reply.commitment for reply in replies),
            sealed=b"".join(reply.sealed[place : place + size] for reply, place in zip(replies, places, strict=True)),
            task=m.NO_TASK,
        )

    def _shared(self, number: int) -> Any:
        if number not in self.shared:
            self.shared[number] = self._read(self.clients[number].receive(self.rosters[number]))
        return self.shared[number]

    def _read(self, data: bytes) -> Any:
        return m.decode(data, len(data))

    def _request(self, kind: type[m.Message], number: int, **fields: bytes) -> bytes:
        return kind(context=self.config.context, client=number, **fields).encode()


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    names = ("share", "mask", "confirm", "unmask")
    rows = [
        f"| {int(size):,} | " + " | ".join(f"{one[name]:.2f}" for name in names) + f" | {sum(one.values()):.2f} |"
        for size, one in found["clients"].items()
    ]
    return (
        f"One client of the guard `active` with {found['degree']} neighbours and {found['length']:,} words, "
        "in milliseconds of processor time (`bench/crypto/crowd.py`): the crowd costs it the sets V1, V2 and "
        "V3, a bit for each client, and the circle on which it finds its neighbours.\n\n"
        "| clients | share | mask | confirm | unmask | in all |\n|--:|--:|--:|--:|--:|--:|\n" + "\n".join(rows)
    )
