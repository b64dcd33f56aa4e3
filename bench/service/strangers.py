"""Strangers at a hub's door: whoever never ends a header, says nothing, vanishes, or talks nonsense.

They are in a process of their own, beside a crowd that takes part. None of them has a token.
"""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from bench.service.crowd import most_files

#: Connections of each kind at a time.
SLOW, SILENT, GONE = 200, 100, 100
#: Seconds between two bytes of a slow one, and until one that was closed comes again.
DRIP, AGAIN = 1.0, 0.5
#: Requests of nonsense per second.
NONSENSE = 50
#: Linux: a socket under repair is closed without a word to the other side.
_TCP_REPAIR = 19

Visit = Callable[[tuple[str, int]], Coroutine[Any, Any, None]]
_REPLY = "/v1/series/1/exchanges/0/reply"


async def beset(address: tuple[str, int], counts: Counter[str]) -> None:
    """Do all of it until cancelled, and count."""
    most_files()
    async with asyncio.TaskGroup() as group:
        for _ in range(SLOW):
            group.create_task(_over_and_over(_slow, address, counts))
        for _ in range(SILENT):
            group.create_task(_over_and_over(_silent, address, counts))
        group.create_task(_vanish(address, counts))
        group.create_task(_talk_nonsense(address, counts))


async def _over_and_over(visit: Visit, address: tuple[str, int], counts: Counter[str]) -> None:
    await asyncio.sleep(random.random())
    while True:
        counts[visit.__name__.strip("_")] += 1
        with suppress(OSError, EOFError):
            await visit(address)
        await asyncio.sleep(AGAIN)


async def _slow(address: tuple[str, int]) -> None:
    """Send a header byte by byte, and never its end."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"PUT {_REPLY} HTTP/1.1\r\nHost: hub\r\nX-Slow: ".encode())
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(DRIP)
    finally:
        writer.close()


async def _silent(address: tuple[str, int]) -> None:
    """Connect, and say nothing until the hub has had enough."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        await reader.read()
    finally:
        writer.close()


async def _vanish(address: tuple[str, int], counts: Counter[str]) -> None:
    """Connect, begin a request, and be gone without a word, as after a power cut."""
    while True:
        for _ in range(GONE):
            with suppress(OSError):
                await asyncio.to_thread(_gone, address)
                counts["gone"] += 1
        await asyncio.sleep(10)


def _gone(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as made:
        made.sendall(f"GET {_REPLY} HTTP/1.1\r\n".encode())
        with suppress(OSError):  # only root may; others close as everyone does
            made.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)


async def _talk_nonsense(address: tuple[str, int], counts: Counter[str]) -> None:
    chance = random.Random(0)
    while True:
        await asyncio.sleep(1 / NONSENSE)
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(5):
                await _say(address, chance.choice(_KINDS)(chance))
                counts["nonsense"] += 1


async def _say(address: tuple[str, int], what: bytes) -> None:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(what)
        await writer.drain()
        await reader.read(1 << 16)
    finally:
        writer.close()


_KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda chance: chance.randbytes(chance.randrange(1, 4000)),
    lambda chance: b"BREW /v1/federation HTTP/1.1\r\nHost: hub\r\n\r\n",
    lambda chance: b"DELETE /v1/series/1/exchanges HTTP/1.1\r\nHost: hub\r\n\r\n",
    lambda chance: b"GET /v1/federation HTTP/1.1\r\n" + b"X-Long: " + b"a" * 60_000,
    lambda chance: b"GET /v1/federation HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 500 + b"\r\n",
    lambda chance: b"PUT %b HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" % _REPLY.encode() + bytes(30_000),
    lambda chance: b"GET /v1/series/1/exchanges HTTP/1.1\r\nAuthorization: Bearer wrong\r\n\r\n",
    lambda chance: b"GET /%b HTTP/1.1\r\nHost: hub\r\n\r\n" % chance.randbytes(200).hex().encode(),
)
