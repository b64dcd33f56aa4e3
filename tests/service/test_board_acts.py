"""The board of a hub: what an operator asks of it is done and written down, or refused."""

import asyncio

import msgspec
import pytest

from ccesa.errors import ConfigError
from ccesa.service.desk import ACTIONS, TO_MEMBERS
from ccesa.service.hub.agenda import Presence
from ccesa.service.hub.board import Board
from ccesa.service.store import open_store
from engines import CLIENTS, federation


@pytest.fixture
def store(tmp_path):
    opened = open_store(f"sqlite:///{tmp_path / 'federation.db'}")
    yield opened
    opened.close()


def act(tmp_path, store, *wishes):
    async def acting():
        made = federation()
        board = Board(made, open_store(f"sqlite:///{tmp_path / 'federation.db'}"), Presence(made, store))
        try:
            for wish in wishes:
                await board.act(*wish)
        finally:
            board.close()

    asyncio.run(acting())


def done(store):
    """What the store has been told of all that an operator can ask for."""
    aside = {client: row.set_aside for client, row in store.members().items()}
    return store.pause_reason(), store.is_finishing(), aside.get(3, "")


@pytest.mark.parametrize(
    ("wishes", "found"),
    [
        ([("pause", None, "holidays")], ("holidays", False, "")),
        ([("pause", None, "holidays"), ("resume", None, "")], ("", False, "")),
        ([("finish", None, "")], ("", True, "")),
        ([("set-aside", 3, "its disk")], ("", False, "its disk")),
        ([("set-aside", 3, "its disk"), ("let-in", 3, "")], ("", False, "")),
    ],
)
def test_what_an_operator_asks_is_done_and_written_down(tmp_path, store, wishes, found):
    act(tmp_path, store, *wishes)
    assert done(store) == found
    told = [msgspec.json.decode(row.body) for row in store.audit_rows()]
    assert [(one["action"], one["client"], one["reason"]) for one in told] == wishes


@pytest.mark.parametrize(
    ("action", "client", "said"),
    [
        ("open-a-sum", None, "the actions are pause, resume, finish"),
        *((action, None, "actions are pause") for action in TO_MEMBERS),
        *((action, 3, "on a member are set-aside, let-in") for action in ACTIONS),
        ("let-in", CLIENTS, f"member {CLIENTS} does not exist"),
        ("let-in", -1, "member -1 does not exist"),
    ],
)
def test_what_nobody_can_ask_is_refused_and_changes_nothing(tmp_path, store, action, client, said):
    with pytest.raises(ConfigError, match=said):
        act(tmp_path, store, (action, client, "because"))
    assert done(store) == ("", False, "")
    assert list(store.audit_rows()) == []
