"""P2: slow-loris, half-open, oversize and malformed clients cost little, and keep nobody out."""

import asyncio
import ipaddress
import math
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from ccesa.service.desk import Receipt, Taken
from ccesa.service.http import Front, Limits, serving
from ccesa.service.http.serving import Door, Room
from desks import served
from series_rounds import task_of
from test_http import problem

QUICK = Limits(
    header_seconds=0.5,
    idle_seconds=1.0,
    linger_seconds=0.5,
    linger_bytes=1 << 20,
    grace_seconds=0.5,
    minimum_rate=10_000,
    handshake_seconds=1.0,
    shutdown_seconds=2,
)
SOON = 4.0


@pytest.fixture(scope="module", autouse=True)
def often():
    """Deadlines are looked at ten times per second."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(serving, "_TICKS", 1)
        yield


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    with served(tmp_path_factory.mktemp("standing"), limits=QUICK) as made:
        yield made


@pytest.fixture
def hub(tmp_path):
    with served(tmp_path, limits=QUICK) as made:
        yield made


def connect(hub):
    return closing(socket.create_connection(hub.address, timeout=10))


def rest(plain: socket.socket) -> bytes:
    """Everything until the hub closes the connection."""
    found = []
    try:
        while piece := plain.recv(65536):
            found.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(found)


def test_a_front_that_cannot_listen_ends_the_others_in_order():
    """A hub whose port is in use says so, and nothing else."""
    ended = []

    @asynccontextmanager
    async def lifespan(_):
        yield
        ended.append(True)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        listens = [f"127.0.0.1:{taken.getsockname()[1]}", "127.0.0.1:0"]
        fronts = [Front(Starlette(lifespan=lifespan), listen) for listen in listens]
        with pytest.raises(OSError, match="in use"):
            asyncio.run(serving.serve(*fronts))
    assert ended == [True, True]


def said(plain: socket.socket, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What the hub says to these bytes before it closes the connection."""
    try:
        for piece in pieces:
            plain.sendall(piece)
            time.sleep(pause)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return rest(plain)


def dripped(plain: socket.socket, first: bytes, drop: bytes) -> tuple[bytes, float]:
    """What the hub says to bytes that go on and on, ten times per second, and after how long."""
    plain.sendall(first)
    began = time.monotonic()
    while not select.select([plain], [], [], 0.1)[0] and time.monotonic() - began < 20:
        plain.sendall(drop)
    return rest(plain), time.monotonic() - began


def answered(plain: socket.socket, request: bytes) -> bytes:
    """One whole answer, on a connection that stays open."""
    plain.sendall(request)
    found = b""
    while b"\r\n\r\n" not in found:
        found += plain.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += plain.recv(65536)
    return head


def put(hub, length: object, *headers: bytes) -> bytes:
    lines = [b"PUT %b HTTP/1.1" % hub.path().encode(), b"Host: hub", b"Authorization: Bearer token-0"]
    return b"\r\n".join([*lines, b"Content-Length: %b" % str(length).encode(), *headers, b"", b""])


def is_well(hub) -> bool:
    with hub.client() as http:
        return http.get("/v1/federation").status_code == 200


# Before a request


def test_p2_a_connection_that_says_nothing_is_closed(standing):
    with connect(standing) as plain:
        began = time.monotonic()
        assert rest(plain) == b""
        assert time.monotonic() - began < SOON


def test_p2_a_header_that_drips_is_cut_off(standing):
    with connect(standing) as plain:
        answer, seconds = dripped(plain, b"GET /v1/federation HTTP/1.1\r\n", b"X: 1\r\n")
        assert seconds < SOON
        assert b" 408 " in answer
        assert b"urn:ccesa:problem:timeout" in answer


def test_p2_empty_lines_do_not_keep_a_connection(standing):
    with connect(standing) as plain:
        answer, seconds = dripped(plain, b"\r\n", b"\r\n")
        assert (answer, seconds < SOON) == (b"", True)


def test_a_connection_is_kept_for_the_next_request_but_not_for_ever(standing):
    with connect(standing) as plain:
        for _ in range(3):
            asks = b"GET /v1/federation HTTP/1.1\r\nHost: hub\r\n\r\n"
            assert answered(plain, asks).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert rest(plain) == b""
        assert 0.5 < time.monotonic() - began < SOON


@pytest.mark.parametrize(
    "header",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + (b"X: " + b"a" * 500 + b"\r\n") * 40 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000,
        b"GET / HTTP/1.1\r\n" + b"a" * 1_000_000,
    ],
    ids=["address", "line", "lines", "all", "endless-line", "endless-name"],
)
def test_p2_a_header_that_is_too_large_is_refused(standing, header):
    with connect(standing) as plain:
        answer = said(plain, header)
        assert answer.startswith(b"HTTP/1.1 431 ") or (answer == b"" and len(header) > 65536)
    assert is_well(standing)


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"\x00" * 100,
    b"HELO hub.example\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nX\x00: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\n : 1\r\n\r\n",
    b"CONNECT hub:443 HTTP/1.1\r\nHost: hub\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_p2_what_is_not_http_is_a_problem_too(standing, data):
    with connect(standing) as plain:
        answer = said(plain, data)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in answer
    assert is_well(standing)


def test_p2_several_requests_at_once_are_not_queued(standing):
    poll = b"GET /v1/federation?after=9 HTTP/1.1\r\nHost: hub\r\nPrefer: wait=30\r\n\r\n"
    for count in (2, 1000):
        with connect(standing) as plain:
            assert said(plain, poll * count) == b""
    assert is_well(standing)


# Bodies


def test_p2_a_body_that_drips_is_cut_off(hub):
    with connect(hub) as plain:
        answer, seconds = dripped(plain, put(hub, 1000), b"a")
        assert seconds < SOON
        assert answer.startswith(b"HTTP/1.1 408 ")
    assert hub.desk.answered == {}
    with hub.client() as http:
        assert http.put(hub.path(), content=hub.reply(0)).status_code == 204


def test_a_body_above_the_least_rate_may_take_its_time(hub):
    taken = []

    async def taking(client, reply):
        taken.append(bytes(reply))
        return Receipt(taken=Taken.SAVED)

    hub.desk.taking = taking
    with connect(hub) as plain:
        pieces = [b"a" * 3000] * 8  # in 1.6 seconds, 15,000 bytes per second
        answer = said(plain, put(hub, 24_000, b"Connection: close"), *pieces, pause=0.2)
        assert answer.startswith(b"HTTP/1.1 204 ")
    assert taken == [b"a" * 24_000]


@pytest.mark.parametrize("ending", ["close", "half", "reset"])
@pytest.mark.parametrize("length", [1000, 2_000_000])
def test_p2_a_body_that_breaks_off_is_not_taken(hub, ending, length):
    with connect(hub) as plain:
        plain.sendall(put(hub, length) + b"a" * 500)
        if ending == "half":
            plain.shutdown(socket.SHUT_WR)
            rest(plain)
        if ending == "reset":
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert hub.desk.answered == {}
    with hub.client() as http:
        deadline = time.monotonic() + SOON
        while (answer := http.put(hub.path(), content=hub.reply(0))).status_code == 429:
            assert time.monotonic() < deadline
        assert answer.status_code == 204


@pytest.mark.parametrize("body", [b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b"5\r\nhel", b"0\r\n\r\n", b"-1\r\n\r\n"])
def test_p2_a_body_of_unknown_length_is_refused_unread(hub, body):
    head = put(hub, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with connect(hub) as plain:
        answer = said(plain, head + body)
        assert answer.startswith((b"HTTP/1.1 411 ", b"HTTP/1.1 400 ")) or answer == b""
    assert hub.desk.answered == {}
    assert is_well(hub)


def test_p2_two_lengths_in_one_header_are_refused(hub):
    with connect(hub) as plain:
        answer = said(plain, put(hub, 5, b"Transfer-Encoding: chunked") + b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_whoever_asks_first_need_not_send_what_is_refused(hub):
    with connect(hub) as plain:
        plain.sendall(put(hub, hub.desk.view.most_bytes + 1, b"Expect: 100-continue"))
        assert plain.recv(65536).startswith(b"HTTP/1.1 413 ")
    with connect(hub) as plain:
        reply = hub.reply(0)
        plain.sendall(put(hub, len(reply), b"Expect: 100-continue", b"Connection: close"))
        assert plain.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert said(plain, reply).startswith(b"HTTP/1.1 204 ")


def test_a_client_whose_large_body_is_refused_can_read_why(hub):
    """A connection that is reset while the client writes would hide from it that its session is over."""
    for _ in range(5):
        with hub.client(77) as http:
            assert problem(http.put(hub.path(), content=bytes(QUICK.linger_bytes))) == "unauthorized"


def test_p2_nobody_sends_a_body_for_ever_that_is_refused(hub):
    with connect(hub) as plain:
        plain.sendall(put(hub, 10**12))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            plain.sendall(bytes(64 << 20))
    with connect(hub) as plain:
        began = time.monotonic()
        plain.sendall(put(hub, 10**12))
        rest(plain)
        assert time.monotonic() - began < SOON


def test_p2_bodies_in_memory_are_bounded_in_all(tmp_path):
    limits = Limits(bodies_in_memory=2500)
    held = []

    async def taking(client, reply):
        held.append(len(reply))
        most.append(sum(held))
        await asyncio.sleep(0.05)
        held.pop()
        return Receipt(taken=Taken.SAVED)

    most, statuses = [], []
    with served(tmp_path, clients=8, limits=limits) as hub:
        hub.desk.taking = taking

        def send(client):
            with hub.client(client) as http:
                statuses.append(http.put(hub.path(), content=bytes(1000)).status_code)

        threads = [threading.Thread(target=send, args=[client]) for client in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [204] * 8
    assert max(most) == 2000


def test_p2_members_that_send_slowly_keep_no_other_waiting(tmp_path):
    """They hold all memory for bodies for as long as the least rate lets them; others go to files."""
    limits = Limits(bodies_in_memory=5000, room_seconds=0.2)
    with served(tmp_path, limits=limits) as hub, hub.client(1) as honest, connect(hub) as slow:
        head = f"PUT {hub.path()} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer token-0\r\n"
        slow.sendall(f"{head}Content-Length: 4999\r\n\r\nx".encode())
        time.sleep(0.3)
        began = time.monotonic()
        assert honest.put(hub.path(), content=hub.reply(1)).status_code == 204
        assert time.monotonic() - began < SOON
        assert hub.desk.answered.keys() == {1}


# Answers


def test_p2_whoever_does_not_read_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("desks.TASK", bytes(20_000_000))
    with served(tmp_path, limits=Limits(grace_seconds=0.5, minimum_rate=1 << 20)) as hub:
        cut_off(hub)
        with hub.client() as http:
            assert len(http.get(f"/v1/tasks/{task_of(0).hex()}").content) == 20_000_000


def cut_off(hub):
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(hub.address)
        head = b"GET /v1/tasks/%b HTTP/1.1\r\nAuthorization: Bearer token-0\r\n\r\n"
        plain.sendall(head % task_of(0).hex().encode())
        plain.settimeout(10)
        assert plain.recv(9) == b"HTTP/1.1 "
        deadline = time.monotonic() + 60
        while len(hub.front.door):
            assert time.monotonic() < deadline
            time.sleep(0.1)


# Who is let in


def test_p2_strangers_make_room_and_the_oldest_goes_first(tmp_path):
    with served(tmp_path, limits=Limits(connections=10)) as hub:
        with hub.client() as member:
            assert member.get("/v1/series/1/exchanges").status_code == 200
            strangers = [socket.create_connection(hub.address) for _ in range(50)]
            assert member.get("/v1/series/1/exchanges").status_code == 200
            assert hub.do(lambda: len(hub.front.door)) == 10
            strangers[0].settimeout(5)
            assert rest(strangers[0]) == b""
            strangers[-1].sendall(b"GET /v1/federation HTTP/1.1\r\nHost: hub\r\n\r\n")
            strangers[-1].settimeout(5)
            assert strangers[-1].recv(65536).startswith(b"HTTP/1.1 200")
            with hub.client(1) as another:
                assert another.get("/v1/series/1/exchanges").status_code == 200
        for stranger in strangers:
            stranger.close()


def test_p2_where_all_are_members_the_next_is_told_so(tmp_path):
    with (
        served(tmp_path, limits=Limits(connections=3)) as hub,
        hub.client(0) as zero,
        hub.client(1) as one,
        hub.client(2) as two,
        hub.client(3) as three,
    ):
        for http in (zero, one, two):
            assert http.get("/v1/series/1/exchanges").status_code == 200
        refused = three.get("/v1/series/1/exchanges")
        assert problem(refused) == "full"
        assert refused.headers["Connection"] == "close"
        zero.close()
        deadline = time.monotonic() + 5
        while three.get("/v1/series/1/exchanges").status_code != 200:
            assert time.monotonic() < deadline
        assert hub.count("refusals_total", reason="full") > 0


def test_p2_a_member_has_no_more_connections_than_others(tmp_path):
    with served(tmp_path, limits=Limits(connections_of_member=4)) as hub:
        own = b"GET /v1/series/1/exchanges HTTP/1.1\r\nAuthorization: Bearer token-0\r\n\r\n"
        sockets = []
        for _ in range(10):
            sockets.append(socket.create_connection(hub.address, timeout=5))
            assert answered(sockets[-1], own).startswith(b"HTTP/1.1 200")
        assert hub.do(lambda: len(hub.front.door)) == 4
        assert [rest(one) for one in sockets[:6]] == [b""] * 6
        for one in sockets:
            one.close()


class Guest:
    def __init__(self):
        self.inside = True

    def turn_out(self):
        self.inside = False


@given(st.lists(st.tuples(st.sampled_from("eekkkl"), st.integers(0, 30), st.integers(0, 3)), max_size=200))
def test_the_door_holds_its_limits_whoever_comes_and_goes(steps):
    door, guests, clients = Door(8, 3), {}, {}
    for kind, number, client in steps:
        guest = guests.get(number)
        if kind == "e" and guest is None:
            guest = Guest()
            if door.enter(guest):
                guests[number] = guest
        elif guest is not None and kind == "k":
            door.admit(guest, client)
            clients[number] = client
        elif guest is not None and kind == "l":
            door.leave(guest)
            guests.pop(number)
            clients.pop(number, None)
        for gone in [number for number, guest in guests.items() if not guest.inside]:
            del guests[gone]
            clients.pop(gone, None)
        assert len(door) == len(guests) <= 8
        assert all(list(clients.values()).count(client) <= 3 for client in range(4))


@given(st.lists(st.integers(0, 10), max_size=30), st.sets(st.integers(0, 29)))
def test_the_room_is_never_more_than_full_and_empty_in_the_end(sizes, cancelled):
    async def play():
        room, held = Room(10), [0]

        async def hold(size):
            await room.take(size)
            held[0] += size
            assert held[0] <= 10
            try:
                await asyncio.sleep(0)
            finally:
                held[0] -= size
                room.give(size)

        tasks = [asyncio.ensure_future(hold(size)) for size in sizes]
        await asyncio.sleep(0)
        for number in cancelled & set(range(len(tasks))):
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.exception() for task in tasks if not task.cancelled()] == [None] * sum(
            not task.cancelled() for task in tasks
        )
        assert room._left == 10
        assert not room._turn.locked()

    asyncio.run(play())


# The end


def waiting(hub, count, path="/v1/series/1/exchanges?after=0"):
    """Connections with requests that wait."""
    asks = f"GET {path} HTTP/1.1\r\nAuthorization: Bearer token-0\r\nPrefer: wait=60\r\n\r\n".encode()
    found = [socket.create_connection(hub.address, timeout=10) for _ in range(count)]
    for one in found:
        one.sendall(asks)
    deadline = time.monotonic() + 5
    while len(hub.front.server_state.tasks) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("path", ["/v1/series/1/exchanges?after=0", "/v1/federation?after=9", "/v1/results/0"])
def test_p2_a_poll_that_was_left_costs_nothing(hub, path):
    for one in waiting(hub, 10, path):
        one.close()
    deadline = time.monotonic() + 5
    while hub.front.server_state.tasks:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_whoever_waits_when_the_hub_stops_is_told_at_once(hub):
    polls, uploads = waiting(hub, 5), socket.create_connection(hub.address, timeout=10)
    uploads.sendall(put(hub, 1000) + b"a" * 500)
    time.sleep(0.1)
    assert hub.stop() < 1.5
    for one in [*polls, uploads]:
        answer = rest(one)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"urn:ccesa:problem:stopping" in answer
        assert b"retry-after: 1" in answer
        one.close()


PROGRAM = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from ccesa.service.federation import Federation, HubTable
from ccesa.service.http import Front, app, serve
from desks import SeriesDesk
from series_rounds import SeriesPlay

async def main():
    play = SeriesPlay("curious", 4)
    hub = HubTable(listen="127.0.0.1:0", spool=sys.argv[1])
    form = {"type": "words", "words": 5}
    federation = Federation(name="a test", rounds=4, config=play.config, form=form, hub=hub)
    front = Front(app(SeriesDesk(play), federation), hub.listen)
    serving = asyncio.ensure_future(serve(front))
    while not front.started:
        await asyncio.sleep(0.01)
    print(front.address[1], flush=True)
    await serving
    print("ended", flush=True)

asyncio.run(main())
"""


def test_a_signal_ends_the_hub_within_seconds(tmp_path):
    here = Path(__file__).parent
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(here), str(here.parent / "support")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10) as poll:
            poll.sendall(b"GET /v1/federation?after=9 HTTP/1.1\r\nPrefer: wait=60\r\n\r\n")
            time.sleep(0.3)
            began = time.monotonic()
            os.kill(process.pid, signal.SIGTERM)
            assert rest(poll).startswith(b"HTTP/1.1 503 ")
        assert process.stdout.read() == "ended\n"
        assert process.wait(10) == 0
        assert time.monotonic() - began < 5


# TLS


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate for the loopback address, signed by itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(1))
        .not_valid_after(now + timedelta(1))
        .add_extension(own, critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


def test_p2_over_tls_all_is_the_same_and_a_handshake_that_hangs_is_ended(tmp_path):
    certificate, key = certify(tmp_path)
    with served(tmp_path, limits=QUICK, certificate=str(certificate), key=str(key)) as hub:
        hanging = [socket.create_connection(hub.address, timeout=10) for _ in range(5)]
        trusted = ssl.create_default_context(cafile=str(certificate))
        with hub.client(verify=trusted) as http:
            assert http.put(hub.path(), content=hub.reply(0)).status_code == 204
            assert problem(http.put(hub.path(), content=bytes(5_000_000))) == "too-large"
        with httpx.Client(trust_env=False) as http, pytest.raises(httpx.ConnectError, match="CERTIFICATE"):
            http.get(hub.url)
        began = time.monotonic()
        assert [rest(one) for one in hanging] == [b""] * 5
        assert time.monotonic() - began < SOON
        for one in hanging:
            one.close()
        assert math.isfinite(hub.stop())
