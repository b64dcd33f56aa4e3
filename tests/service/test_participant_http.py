"""``Participant`` and ``ccesa join`` against a real hub on a loopback port."""

import asyncio
import hashlib
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ccesa.errors import ConfigError
from ccesa.graphs import Harary
from ccesa.service.federation import Federation, HubTable
from ccesa.service.hub.hub import Hub
from ccesa.service.participant.driver import Participant, origin_of
from ccesa.service.policy import Policy
from ccesa.service.store import open_store
from rounds import charter, configure, identity
from series_rounds import GUARDS

CLIENTS, WORDS = 5, 40


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


def federation(folder, guard: str, **options) -> Federation:
    hub = {
        "listen": f"127.0.0.1:{free_port()}",
        "operate": "127.0.0.1:0",
        "spool": str(folder / "spool"),
        **options.pop("hub", {}),
    }
    rounds = (
        {"charter": charter(CLIENTS, bits=32)}
        if guard == "active"
        else {"config": configure(CLIENTS, bits=32, min_survivors=3)}
    )
    policy = Policy(gather=10, after=3, deadline=6, vector_after=3, vector_deadline=6, absent=5)
    return Federation(
        **{
            "name": "a test",
            "rounds": 2,
            "form": {"type": "words", "words": WORDS, "bits": 32},
            "policy": policy,
            "folder": folder,
            "hub": HubTable(**hub),
            **rounds,
            **options,
        }
    )


def vector(client: int, task: bytes) -> np.ndarray:
    return np.random.default_rng([client, *task]).integers(0, 2**32, WORDS, dtype=np.uint32)


def participant(made: Federation, client: int, url: str, folder, **options) -> Participant:
    who = (
        {"charter": made.charter, "identity": identity(client), "memory": folder / f"memory-{client}"}
        if made.charter
        else {"token": f"token-{client}"}
    )
    return Participant(url, **{**who, **options})


def run(made: Federation, *works) -> None:
    """Run a hub, and each of these in a thread of its own, with the address of the hub."""
    if made.charter is None:
        store = open_store(made.store)
        for client in range(CLIENTS):
            store.add_token(hashlib.sha256(f"token-{client}".encode()).digest(), client, "")
        store.close()

    async def everything() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(works) + 4))
        hub, ready = Hub(made), asyncio.Event()
        running = asyncio.ensure_future(hub.run(lambda _: ready.set()))
        await asyncio.wait([running, asyncio.ensure_future(ready.wait())], return_when="FIRST_COMPLETED")
        try:
            await asyncio.gather(*(asyncio.to_thread(work, hub.address) for work in works))
        finally:
            for front in (hub._public, hub._private):
                front.should_exit = True
            await running

    asyncio.run(everything())


def check(made: Federation) -> list[tuple[int, ...]]:
    """Every sum is the plain one; return who is in each."""
    store = open_store(made.store)
    rows = [row for row in store.rounds(totals=True) if row.outcome == "sum"]
    for row in rows:
        task = store.task_of(row.question)
        expected = sum(vector(client, task) for client in row.survivors)
        assert np.array_equal(np.frombuffer(row.total, np.uint32), expected)
    store.close()
    return [row.survivors for row in rows]


def works(made: Federation, folder, events=None, **options):
    def work(client: int):
        def doing(url: str) -> None:
            kept = [] if events is None else events.setdefault(client, [])
            site = participant(made, client, url, folder, progress=kept.append, **options)
            site.run(lambda task, number: vector(client, task))

        return doing

    return [work(client) for client in range(CLIENTS)]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_federation_over_http(guard, tmp_path):
    made, events = federation(tmp_path, guard), {}
    run(made, *works(made, tmp_path, events))
    assert check(made) == [tuple(range(CLIENTS))] * 2
    for told in events.values():
        assert [event.text for event in told if event.kind == "summed"] == [
            "in the sum of round 0",
            "in the sum of round 1",
        ]
        assert told[-1].kind == "over"
