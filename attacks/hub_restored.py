"""A hub whose database is put back from a backup in the middle of a round. S43: ``curious``.

It is S27 through the service: the hub starts with a database from before it closed *mask*, closes that again
without the victim, and asks the other half.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Collection
from contextlib import closing
from functools import partial
from pathlib import Path

from attacks.base import Attack, Outcome, Tell
from attacks.colluders import Colluder
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.stage import inputs, names, opened
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError
from ccesa.logfile import OpeningCounter
from ccesa.policy import Policy
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.series_client import SeriesClient
from ccesa.service.coordinator import Questions
from ccesa.service.desk import Receipt, Status, View
from ccesa.service.federation import Federation
from ccesa.service.forms import Words
from ccesa.service.hub.agenda import Presence
from ccesa.service.hub.engine import Engine, Handed
from ccesa.service.meters import Meters
from ccesa.service.store import open_store
from ccesa.words import Vector

CLIENTS, WORDS, VICTIM, FRIEND = 9, 8, 3, 8
ASKED_FIRST = (0, 1, 2, VICTIM)
_DEADLINE = 10.0


class RealHub:
    """The engine of a hub in a folder, at a time that the attacker says; its members are always there."""

    def __init__(self, folder: Path, now: float) -> None:
        self.now, self.says = now, ""
        made = Federation(
            name="old",
            rounds=1,
            config=RoundConfig(clients=CLIENTS, length=WORDS),
            form=Words(words=WORDS),
            policy=Policy(after=_DEADLINE, deadline=_DEADLINE, vector_after=_DEADLINE, vector_deadline=_DEADLINE),
        )
        self._store = open_store(f"sqlite:///{folder}/hub.db")
        self._counter = OpeningCounter(folder / "hub.counter")
        self._presence = Presence(made, self._store, lambda: self.now)
        self._engine = Engine(
            made,
            self._store,
            Questions("old"),
            presence=self._presence,
            publish=self._publish,
            meters=Meters(),
            name="hub",
            counter=self._counter,
        )
        self.view, _ = self._engine.first_look()

    def _publish(self, view: View, status: Status) -> None:
        self.view, self.says = view, status.reason

    def turn(self, *batch: Handed) -> None:
        """Do what the hub's thread does again and again."""
        self.now += 1
        for client in range(CLIENTS):
            self._presence.hear(client)
        self._engine._turn(list(batch))  # noqa: SLF001 - what its thread does, at a chosen time

    def close(self) -> None:
        self._store.close()
        self._counter.close()


class HubStage:
    """Members of one hub, of whom one tells the attacker its keys, and all that goes to and fro."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self.folder, self.tell, self.hub = folder, tell, RealHub(folder, 1000.0)
        self.ear: Eavesdropper | None = None
        self.vectors: dict[int, Vector] = inputs(RoundConfig(clients=CLIENTS, length=WORDS))
        self._members: dict[int, SeriesClient] = {}

    def _party(self, i: int, config: RoundConfig) -> Client:
        kind = Colluder if i == FRIEND else Client
        client = kind(config, i, self.vectors[i], task=lambda: self.hub.view.task or m.NO_TASK)
        self.ear = self.ear or Eavesdropper(config)
        if isinstance(client, Colluder):
            client.report_to(self.ear)
        return client

    def ask(self, clients: Collection[int]) -> dict[int, bytes]:
        """Return what these answer to the open exchange, where they answer."""
        replies, view = {}, self.hub.view
        for i in sorted(view.requests.keys() & set(clients)):
            if i not in self._members:
                config = RoundConfig.decode(view.config)
                self._members[i] = SeriesClient(config, partial(self._party, i))
            try:
                replies[i] = self._members[i].receive(view.requests[i])
            except CcesaError as error:
                self.tell(f"  client {i} aborts: {error}")
                continue
            for data in (view.requests[i], replies[i]):
                for message in envelope.unpack(data):
                    if self.ear is not None:
                        self.ear.overhear(i, bytes(message))
        return replies

    def hand_over(self, replies: dict[int, bytes]) -> None:
        """Give replies to the hub, and let it go on."""
        view = self.hub.view
        self.hub.turn(*(_handed(i, view, reply) for i, reply in replies.items()))

    def until(self, exchange: int) -> None:
        """Play whole exchanges up to this one; nobody answers that."""
        while self.hub.view.exchange < exchange:
            self.hand_over(self.ask(range(CLIENTS)) if self.hub.view.requests else {})

    def back_up(self) -> None:
        """Copy the database, as a backup does, and the counter beside it."""
        backup = self.folder / "backup"
        backup.mkdir(mode=0o700)
        with (
            closing(sqlite3.connect(self.folder / "hub.db")) as one,
            closing(sqlite3.connect(backup / "hub.db")) as two,
        ):
            one.backup(two)
        (backup / "hub.db").chmod(0o600)
        shutil.copy(self.folder / "hub.counter", backup)

    def restore(self, *files: str) -> None:
        """The hub dies, and starts with these files of the backup."""
        self.hub.close()
        for path in self.folder.glob("hub.db*"):
            path.unlink()
        for file in files:
            shutil.copy(self.folder / "backup" / file, self.folder / file)
        self.hub = RealHub(self.folder, self.hub.now)


def _handed(i: int, view: View, reply: bytes) -> Handed:
    def done(receipt: Receipt) -> None: ...

    return Handed(client=i, series=view.series, exchange=view.exchange, reply=reply, done=done)


def old_database(defended: bool, tell: Tell) -> Outcome:
    """With t = 5 of 9 holders, a colluder and 4 more give either secret, and no honest client gives both."""
    with tempfile.TemporaryDirectory() as folder:
        stage = HubStage(Path(folder), tell)
        try:
            return _play(stage, defended)
        finally:
            stage.hub.close()


def _play(stage: HubStage, defended: bool) -> Outcome:
    mask = 3
    stage.until(mask)
    replies, victim = stage.ask(range(CLIENTS)), stage.vectors[VICTIM]
    stage.hand_over({i: replies[i] for i in replies if i != VICTIM})
    stage.back_up()
    stage.tell(f"the database is backed up; then the vector of client {VICTIM} comes, and exchange {mask} closes")
    stage.hand_over({VICTIM: replies[VICTIM]})
    stage.hand_over({})
    stage.ask({*ASKED_FIRST, FRIEND})
    stage.tell(f"{names(ASKED_FIRST)} release shares of b_{VICTIM}; the hub dies, and the backup is put back")
    stage.restore("hub.db", *([] if defended else ["hub.counter"]))
    stage.hub.turn()
    if not stage.hub.view.requests:
        return Outcome(succeeded=False, summary=f"the hub asks nobody: {stage.hub.says}", victim=victim)
    stage.tell(f"it has no vector of client {VICTIM}: at the deadline the exchange closes, and all are asked")
    stage.hub.now += 2 * _DEADLINE
    while stage.hub.view.exchange == mask:
        stage.hub.turn()
    stage.ask(range(CLIENTS))
    return _steal(stage)


def _steal(stage: HubStage) -> Outcome:
    victim = stage.vectors[VICTIM]
    if stage.ear is None:
        return Outcome(succeeded=False, summary="nobody was asked", victim=victim)
    try:
        found = stage.ear.open({VICTIM}, self_masked=True)
    except StillHidden as hidden:
        return Outcome(succeeded=False, summary=str(hidden), victim=victim)
    return opened(found, victim, f"the hub computed what {names([VICTIM])} sent")


RESTORED_HUBS = (
    Attack(
        number="S43",
        name="old-database",
        title="a hub whose database is put back from before an exchange that it had closed",
        guard="curious",
        defence="a counter of what this hub has asked, which is not restored with the database",
        run=old_database,
    ),
)
