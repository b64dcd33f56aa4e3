"""The crowd of the bench, in small: real participants in one process, strangers beside them, a real hub."""

import asyncio
from dataclasses import replace

import pytest

from bench.service.crowd import Case, Seen, Wire, plain_sum
from bench.service.runs import run
from ccesa.service.participant.calls import Call


@pytest.mark.parametrize("guard", [pytest.param("curious", marks=pytest.mark.slow), "active"])
def test_fifty_participants_beside_strangers(guard, tmp_path):
    case = Case(guard, 50, 20, rounds=2)
    ran = run(case, tmp_path, strangers=True)
    assert ran.survivors == [50, 50]
    assert ran.exact
    assert ran.seen.told["summed"] == 100
    assert "refused" not in ran.seen.told
    assert set(ran.strangers) == {"slow", "silent", "gone", "nonsense"}
    for step in ran.steps():
        assert step["replies"] == 50
        assert 0 <= step["median_s"] <= step["p99_s"]
    assert sum(step["vectors"] for step in ran.steps()) == 2


def test_a_sum_that_is_not_the_plain_one_is_found(tmp_path):
    case = Case("curious", 8, 4)
    ran = run(case, tmp_path)
    [row] = ran.rounds
    assert ran.exact
    changed = bytes([row.total[0] ^ 1]) + row.total[1:]
    ran.rounds = [replace(row, total=changed)]
    assert not ran.exact
    ran.rounds = []
    assert not ran.exact


def test_vectors_differ_by_client_and_question():
    case = Case("curious", 8, 4)
    assert len({case.vector(client, question).tobytes() for client in range(8) for question in range(3)}) == 24
    assert (plain_sum(case, [1, 2], 0) == case.vector(1, 0) + case.vector(2, 0)).all()


def answered(data: bytes, call: Call):
    """What a wire makes of these bytes from a hub, which closes the connection behind them."""

    async def serve():
        async def one(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()

        async with await asyncio.start_server(one, "127.0.0.1", 0) as server:
            wire = Wire(server.sockets[0].getsockname(), asyncio.Semaphore(1), Seen())
            try:
                return await wire.carry(call)
            finally:
                wire.close()
                await asyncio.sleep(0.01)

    return asyncio.run(serve())


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", b"x\r\n\r\n"]
)
def test_a_broken_answer_is_none(data):
    assert answered(data, Call(method="GET", path="/")).status == 0


def test_a_whole_answer():
    found = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc", Call(method="GET", path="/"))
    assert (found.status, found.body, found.headers["a"]) == (200, b"abc", "b")
