"""The board of a hub: what many ask for at once is there once, and nobody's token waits for it."""

import asyncio
import gc
import threading
from types import SimpleNamespace

import pytest

from ccesa.errors import OrderError
from ccesa.service.federation import Federation
from ccesa.service.forms import Words
from ccesa.service.hub import agenda
from ccesa.service.hub.agenda import Presence
from ccesa.service.hub.board import Board
from ccesa.service.store import open_store
from ccesa.service.store.rows import RoundRow
from ccesa.service.tasks import task_digest
from ccesa.service.tokens import hash_token
from engines import WORDS, federation
from rounds import charter

TASKS = [b"model" * 1000, b"another"]


def on_board(tmp_path, use, made=None):
    """Use a board with two tasks, the sum of the first of them, and a client's token."""
    made, url = made or federation(), f"sqlite:///{tmp_path}/a.db"

    async def run():
        store = open_store(url)
        for question, payload in enumerate(TASKS):
            store.put_task(question, payload, task_digest(payload))
        store.put_round(answered())
        store.revoke_tokens(3)
        store.add_token(hash_token("mine"), 3, "")
        board = Board(made, store, Presence(made, store))
        try:
            return await use(board)
        finally:
            board.close()

    return asyncio.run(run())


def answered() -> RoundRow:
    return RoundRow(
        series=1,
        number=0,
        question=0,
        attempt=1,
        task=task_digest(TASKS[0]),
        context=bytes(32),
        started=1.0,
        ended=2.0,
        outcome="sum",
        reason="",
        survivors=(0, 1, 2),
        asked=3,
        pairs=(),
        total=bytes(4 * WORDS),
        metrics={},
    )


def test_a_hub_that_has_shown_nothing_yet_says_so(tmp_path):
    async def use(board):
        for look in (lambda: board.view, board.status):
            with pytest.raises(OrderError, match="the hub has published nothing yet"):
                look()

    on_board(tmp_path, use)


def test_a_task_that_many_fetch_is_in_memory_once(tmp_path):
    digests = [task_digest(payload) for payload in TASKS]

    async def use(board):
        found = await asyncio.gather(*(board.task(digests[place % 2]) for place in range(20)))
        assert all(one is found[place % 2] for place, one in enumerate(found))
        assert [bytes(one) for one in found[:2]] == TASKS
        assert await board.task(bytes(32)) is None
        del found
        gc.collect()
        assert len(board._tasks) == 1  # the latest one stays, for whoever fetches it in parts

    on_board(tmp_path, use)


def test_a_result_is_made_once_and_no_token_waits_for_it(tmp_path, monkeypatch):
    let_go, made, value_of = threading.Event(), [], agenda.value_of

    def slowly(*args):
        made.append(1)
        let_go.wait(10)
        return value_of(*args)

    monkeypatch.setattr(agenda, "value_of", slowly)

    async def use(board):
        results = [asyncio.ensure_future(board.result(0)) for _ in range(5)]
        async with asyncio.timeout(5):
            assert await board.member_of("mine") == 3
        let_go.set()
        found = await asyncio.gather(*results)
        assert [one["survivors"] for one in found] == [[0, 1, 2]] * 5
        assert all(one["head"] == board._store.head().hash.hex() for one in found)
        assert await board.result(1) is None
        assert len(made) == 1

    on_board(tmp_path, use)


def test_tokens_are_looked_up_together(tmp_path):
    async def many(board):
        turns, read = [], board._read

        async def counted(look):
            turns.append(look)
            return await read(look)

        board._read = counted
        found = await asyncio.gather(*(board.member_of(f"token {n}") for n in range(50)), board.member_of("mine"))
        return found, len(turns)

    found, turns = on_board(tmp_path, many)
    assert found == [None] * 50 + [3]
    assert turns == 1


def test_p1_a_session_ends_with_its_charter(tmp_path):
    """In the next one another member may have the number, and whoever left, or stole a key, has none."""

    def under(serial):
        agreed = charter(6, bits=32, min_survivors=3, serial=serial)
        return Federation(name="a test", rounds=1, charter=agreed, form=Words(words=WORDS))

    async def sign_in(board):
        token, _ = await board.new_session(4, bytes(16))
        assert await board.member_of(token) == 4
        return token

    async def is_nobody(board):
        assert await board.member_of(token) is None
        assert await board.member_of("mine") is None  # a token without a charter is none under one

    async def is_known(board):
        assert await board.member_of(token) == 4

    token = on_board(tmp_path, sign_in, under(1))
    on_board(tmp_path, is_nobody, under(2))
    on_board(tmp_path, is_known, under(1))  # a hub that is started again


def test_who_is_set_aside_and_what_members_know_come_from_the_store(tmp_path):
    """What members know is kept only where this hub does not know it."""

    async def use(board):
        view = SimpleNamespace(state="running", series=2, exchange=5, latest=5, question=-1)
        board.show(view, None)
        store = board.presence._store
        board.hear(1, 2, 5)
        board.hear(2, 1, 900)
        board.hear(3, 2, 6)
        board.hear(4, 3, -1)
        store.set_aside(5, "it lies")
        assert not board.is_set_aside(5)
        board.presence.share_known()
        assert board.is_set_aside(5)
        assert {client: row.known for client, row in store.members().items() if row.known != (0, -1)} == {
            3: (2, 6),
            4: (3, -1),
        }

    on_board(tmp_path, use)
