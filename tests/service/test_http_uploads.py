"""Replies that are too large for memory, or come in parts: resumed, bounded, and gone with their exchange."""

import asyncio
import errno
import os
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.service.desk import Receipt, Taken
from ccesa.service.http import Limits
from ccesa.service.http import uploads as spools
from ccesa.service.http.uploads import Spool
from desks import served
from test_http import problem

#: No silence is too short: what is with the desk already is not ended for all that.
SMALL = Limits(body_in_memory=1000, yield_seconds=0)


@pytest.fixture
def hub(tmp_path):
    with served(tmp_path, limits=SMALL, length=2000) as made:
        yield made


def files(hub) -> list[str]:
    return sorted(path.name for path in hub.federation.spool.iterdir() if path.name != "lock")


def patch(http, path, reply, start, stop, **headers):
    told = {"Upload-Offset": str(start), "Upload-Length": str(len(reply)), **headers}
    return http.patch(path, content=bytes(reply[start:stop]), headers=told)


def go_to_vectors(hub, http) -> None:
    while hub.desk.view.task is None:
        for client in range(4):
            assert http.put(hub.path(), content=hub.reply(client), headers=hub.own(client)).status_code == 204


def test_a_series_with_large_replies_leaves_no_file_behind(hub):
    with hub.client() as http:
        while hub.desk.view.state != "over":
            for client in range(4):
                path, reply = hub.path(), hub.reply(client)
                assert http.put(path, content=reply, headers=hub.own(client)).status_code == 204
        assert len(hub.desk.ended) == 3
        for ended in hub.desk.ended:
            hub.play.check(ended)
    assert files(hub) == []


def test_a_large_reply_is_mapped_and_not_read_into_memory(hub):
    kinds = []

    async def taking(client, reply):
        kinds.append((type(reply), len(reply), files(hub)))
        return Receipt(taken=Taken.SAVED)

    hub.desk.taking = taking
    with hub.client() as http:
        for size in (1000, 1001):
            assert http.put(hub.path(), content=bytes(size)).status_code == 204
    assert kinds == [(bytes, 1000, []), (memoryview, 1001, ["1-0-0"])]
    assert files(hub) == []


def test_a_reply_in_parts_is_the_whole_one(hub):
    with hub.client() as http:
        go_to_vectors(hub, http)
        path, reply = hub.path(), hub.reply(0)
        assert len(reply) > 3000
        for start in range(0, len(reply), 1000):
            assert http.head(path).headers["Upload-Offset"] == str(start)
            answer = patch(http, path, reply, start, start + 1000)
            assert answer.status_code == 204
            last = start + 1000 >= len(reply)
            assert answer.headers.get("Upload-Offset") == (None if last else str(start + 1000))
        assert set(hub.desk.answered) == {0}
        # Whoever missed the last answer asks how far it got, and is told again.
        assert http.head(path).headers["Upload-Offset"] == str(len(reply))
        assert patch(http, path, reply, len(reply), None).status_code == 204
        assert http.put(path, content=reply).status_code == 204
    assert files(hub) == []


def test_a_part_that_does_not_fit_is_told_where_to_go_on(hub):
    with hub.client() as http:
        reply = bytes(3000)
        assert patch(http, hub.path(), reply, 0, 1000).status_code == 204
        for start in (0, 999, 1001, 2999):
            answer = patch(http, hub.path(), reply, start, start + 1)
            assert (problem(answer), answer.json()["upload_offset"]) == ("upload-offset", 1000)
        assert files(hub) == ["1-0-0"]


def test_parts_of_another_client_or_exchange_are_others(hub):
    with hub.client(0) as http, hub.client(1) as other:
        assert patch(http, hub.path(), bytes(3000), 0, 1000).status_code == 204
        assert other.head(hub.path()).headers["Upload-Offset"] == "0"
        hub.do(hub.desk.open_next)
        assert http.head(hub.path()).headers["Upload-Offset"] == "0"
        assert http.head(hub.path(0)).status_code == 410
        time.sleep(0.1)
        assert files(hub) == []


NOWHERE = [
    {"Upload-Offset": "-1"},
    {"Upload-Offset": "x"},
    {"Upload-Length": ""},
    {"Upload-Length": "9" * 16},
    {"Upload-Length": "99"},
    {"Upload-Length": "0x64"},
]


def test_a_part_says_where_it_belongs(hub):
    with hub.client() as http:
        for headers in NOWHERE:
            assert problem(patch(http, hub.path(), bytes(100), 0, 100, **headers)) == "malformed"
        assert files(hub) == []


def test_an_upload_is_no_larger_than_a_reply_can_be(hub):
    with hub.client() as http:
        most = hub.desk.view.most_bytes
        answer = http.patch(hub.path(), content=b"a", headers={"Upload-Offset": "0", "Upload-Length": str(most + 1)})
        assert problem(answer) == "too-large"
        assert files(hub) == []


def test_a_reply_that_has_to_be_handed_in_again_is_not_sent_again(hub):
    answers = [Receipt(taken=Taken.AGAIN), Receipt(taken=Taken.AGAIN), Receipt(taken=Taken.SAVED)]
    taken = []

    async def taking(client, reply):
        taken.append(bytes(reply))
        return answers.pop(0)

    hub.desk.taking = taking
    with hub.client() as http:
        reply = os.urandom(2000)
        assert problem(patch(http, hub.path(), reply, 0, None)) == "unavailable"
        assert http.head(hub.path()).headers["Upload-Offset"] == "2000"
        assert problem(patch(http, hub.path(), reply, 2000, None)) == "unavailable"
        assert patch(http, hub.path(), reply, 2000, None).status_code == 204
        assert taken == [reply] * 3
    assert files(hub) == []


def test_one_body_per_client_at_a_time(hub):
    entered, leave = threading.Event(), threading.Event()

    async def taking(client, reply):
        entered.set()
        while not leave.is_set():
            await asyncio.sleep(0.01)
        return Receipt(taken=Taken.SAVED)

    hub.desk.taking = taking
    with hub.client(0) as http, hub.client(1) as other:
        statuses = []
        first = threading.Thread(target=lambda: statuses.append(http.put(hub.path(), content=bytes(2000)).status_code))
        first.start()
        assert entered.wait(5)
        with hub.client(0) as again:
            for answer in (again.put(hub.path(), content=b"?"), patch(again, hub.path(), b"??", 0, 1)):
                assert problem(answer) == "busy"
        leave.set()
        first.join()
        assert statuses == [204]
        assert other.put(hub.path(), content=b"?").status_code == 204
        assert http.put(hub.path(), content=b"?").status_code == 204


# Lines that die without a word

#: A member is cut off, or replaced, after so short a silence that a test can wait for it.
DEAF = Limits(body_in_memory=1000, silence_seconds=60, yield_seconds=0.3)


def head_of(hub, method: str, size: int, *lines: str, client: int = 0) -> bytes:
    first = f"{method} {hub.path()} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-{client}\r\n"
    return "\r\n".join([first + f"Content-Length: {size}", *lines, "\r\n"]).encode()


def part_of(hub, reply: bytes, start: int) -> bytes:
    told = (f"Upload-Offset: {start}", f"Upload-Length: {len(reply)}")
    return head_of(hub, "PATCH", len(reply) - start, *told)


def arrived(hub, offset: int) -> None:
    path = hub.federation.spool / f"1-{hub.desk.view.exchange}-0"
    until = time.monotonic() + 5
    while not path.exists() or path.stat().st_size != offset:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_silent_upload_makes_room_for_a_newer_one_and_nothing_of_it_is_lost(tmp_path):
    """Wherever it stops. The newer one goes on where it stopped, and says so to the older connection."""
    with served(tmp_path, limits=DEAF, length=2000) as hub, hub.client() as http:
        go_to_vectors(hub, http)
        reply, stops = hub.reply(0), [1, 900, 901, 4000]
        silent = []
        for start, stop in zip([0, *stops], stops, strict=False):
            silent.append(socket.create_connection(hub.address, timeout=5))
            silent[-1].sendall(part_of(hub, reply, start) + reply[start:stop])
            arrived(hub, stop)
            time.sleep(0.4)
        assert patch(http, hub.path(), reply, stops[-1], None).status_code == 204
        assert set(hub.desk.answered) == {0}
        for plain in silent:
            said = plain.recv(65536)
            assert said.startswith(b"HTTP/1.1 429 ")
            assert b"a newer request took its place" in said
            plain.close()


@pytest.mark.parametrize("size", [900, 3000])
def test_a_silent_reply_in_one_piece_makes_room_too(tmp_path, size):
    """Whether it would have been kept in memory or in a file."""
    taken = []

    async def taking(client, reply):
        taken.append(bytes(reply))
        return Receipt(taken=Taken.SAVED)

    with served(tmp_path, limits=DEAF) as hub, hub.client() as http:
        hub.desk.taking = taking
        with socket.create_connection(hub.address, timeout=5) as plain:
            plain.sendall(head_of(hub, "PUT", size) + b"a" * (size // 2))
            time.sleep(0.4)
            assert http.put(hub.path(), content=b"b" * size).status_code == 204
            assert plain.recv(65536).startswith(b"HTTP/1.1 429 ")
        assert taken == [b"b" * size]


def test_an_upload_that_is_heard_from_keeps_its_place(tmp_path):
    """However slow it is: otherwise two that replace each other would both go on for ever."""
    with served(tmp_path, limits=DEAF, length=2000) as hub, hub.client() as http:
        go_to_vectors(hub, http)
        reply = hub.reply(0)
        with socket.create_connection(hub.address, timeout=5) as plain:
            plain.sendall(part_of(hub, reply, 0))
            for start in range(0, len(reply), 500):
                plain.sendall(reply[start : start + 500])
                if start + 500 < len(reply):
                    arrived(hub, start + 500)
                    assert http.head(hub.path()).status_code == 429
                    assert problem(patch(http, hub.path(), reply, start + 500, None)) == "busy"
            assert plain.recv(65536).startswith(b"HTTP/1.1 204 ")
        assert set(hub.desk.answered) == {0}


def test_nobody_else_ends_an_upload(tmp_path):
    with served(tmp_path, limits=DEAF, length=2000) as hub, hub.client() as http, hub.client(1) as other:
        go_to_vectors(hub, http)
        reply = hub.reply(0)
        with socket.create_connection(hub.address, timeout=5) as plain:
            plain.sendall(part_of(hub, reply, 0) + reply[:1000])
            arrived(hub, 1000)
            time.sleep(0.4)
            assert other.put(hub.path(), content=hub.reply(1)).status_code == 204
            stranger = {"Authorization": "Bearer nobody"}
            assert http.put(hub.path(), content=reply, headers=stranger).status_code == 401
            plain.sendall(reply[1000:])
            assert plain.recv(65536).startswith(b"HTTP/1.1 204 ")
        assert set(hub.desk.answered) == {0, 1}


def test_a_body_that_falls_silent_is_cut_off_however_fast_it_was_before(tmp_path):
    """At the least rate alone, two megabytes would be four minutes of silence."""
    limits = Limits(silence_seconds=0.5)
    with served(tmp_path, limits=limits) as hub, hub.client() as http:
        with socket.create_connection(hub.address, timeout=5) as plain:
            plain.sendall(head_of(hub, "PUT", 3_000_000) + bytes(2_000_000))
            assert plain.recv(65536).startswith(b"HTTP/1.1 408 ")
        assert http.head(hub.path()).headers["Upload-Offset"] == "2000000"


def test_an_upload_ends_when_its_exchange_closes(tmp_path):
    with served(tmp_path, limits=SMALL) as hub, hub.client() as http:

        def body():
            yield bytes(1500)
            hub.do(hub.desk.open_next)
            yield bytes(500)

        answer = http.put(hub.path(), content=body(), headers={"Content-Length": "2000"})
        assert problem(answer) == "late"


@pytest.mark.parametrize("size", [900, 100_000])
def test_who_is_late_need_not_send_the_rest(tmp_path, size):
    with served(tmp_path, limits=SMALL) as hub, socket.create_connection(hub.address, timeout=5) as plain:
        head = f"PUT {hub.path()} HTTP/1.1\r\nAuthorization: Bearer token-0\r\nContent-Length: {size}\r\n\r\n"
        plain.sendall(head.encode() + bytes(100))
        time.sleep(0.1)
        hub.do(hub.desk.open_next)
        plain.sendall(bytes(100))
        assert plain.recv(65536).startswith(b"HTTP/1.1 410 ")


def test_a_full_disk_is_told_and_nothing_else_suffers(hub, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "no space left")

    with hub.client() as http:
        with monkeypatch.context() as patched:
            patched.setattr(spools.os, "write", full)
            assert problem(http.put(hub.path(), content=bytes(2000))) == "unavailable"
            assert http.put(hub.path(), content=hub.reply(0)).status_code == 204
        assert http.put(hub.path(), content=hub.reply(0)).status_code == 204


def test_uploads_survive_a_restart_of_the_hub_and_others_are_swept(tmp_path):
    with served(tmp_path, limits=SMALL) as hub, hub.client() as http:
        assert patch(http, hub.path(), bytes(3000), 0, 1000).status_code == 204
        (hub.federation.spool / "1-5-2").write_bytes(b"of a time to come")
    with served(tmp_path, limits=SMALL) as hub, hub.client() as http:
        assert http.head(hub.path()).headers["Upload-Offset"] == "1000"
        assert files(hub) == ["1-0-0"]


# The folder


def test_one_folder_belongs_to_one_process(tmp_path):
    one = Spool(tmp_path / "spool")
    with pytest.raises(ConfigError, match="its own spool folder"):
        Spool(tmp_path / "spool")
    one.close()
    Spool(tmp_path / "spool").close()


def test_nobody_else_can_read_uploads(tmp_path):
    spool = Spool(tmp_path / "spool")
    with spool.append((1, 2, 3)) as add:
        add(b"masked")
    assert (tmp_path / "spool").stat().st_mode & 0o077 == 0
    assert (tmp_path / "spool" / "1-2-3").stat().st_mode & 0o077 == 0
    spool.close()


def test_a_mapped_upload_stays_as_it_is_when_another_takes_its_place(tmp_path):
    spool, key = Spool(tmp_path), (1, 2, 3)
    with spool.append(key) as add:
        add(b"first" * 10_000)
    mapped = spool.map(key)
    spool.remove(key)
    with spool.append(key) as add:
        add(b"!")
    assert bytes(mapped) == b"first" * 10_000
    assert spool.size(key) == 1
    spool.close()


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_pieces_are_joined_in_their_order(tmp_path_factory, pieces):
    spool, key = Spool(tmp_path_factory.mktemp("spool")), (7, 8, 9)
    for piece in pieces:
        with spool.append(key) as add:
            add(piece)
    whole = b"".join(pieces)
    assert spool.size(key) == len(whole)
    if pieces:
        assert bytes(spool.map(key)) == whole
    spool.sweep(7, 8)
    assert spool.size(key) == len(whole)
    spool.sweep(7, 80)
    assert spool.size(key) == 0
    spool.close()
