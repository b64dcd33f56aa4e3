"""A server that loses its machine in the middle of a round, and goes on from a backup. S27: ``curious``.

Nobody lies. The server asks some clients for shares and dies; the one that takes its place has not heard of
the victim's vector and asks the others: these hand over the other secret of the victim.
"""

import shutil
import tempfile
from pathlib import Path

from attacks.base import Attack, Outcome, Tell
from attacks.colluders import Colluder
from attacks.stage import Stage, inputs, names
from ccesa.agreement.config import RoundConfig
from ccesa.errors import StaleLog
from ccesa.protocol.client import Client
from ccesa.protocol.log import RoundLog
from ccesa.protocol.server import Server

VICTIM, FRIEND = 3, 8
ASKED_FIRST = (0, 1, 2, VICTIM)


def old_log(defended: bool, tell: Tell) -> Outcome:
    """With t = 5 of 9 holders, a colluder and 4 more give either secret, and no honest client gives both."""
    with tempfile.TemporaryDirectory() as folder:
        return _play(defended, tell, Path(folder))


def _play(defended: bool, tell: Tell, folder: Path) -> Outcome:
    config = RoundConfig(clients=9, length=8)
    log, counter, backup = folder / "log", folder / "counter", folder / "backup"
    vectors = inputs(config)
    clients = {i: (Colluder if i == FRIEND else Client)(config, i, vectors[i]) for i in vectors}
    opened = RoundLog(log, counter=counter)
    stage = Stage(Server(config, log=opened), clients, vectors, tell).until("mask")
    vector = _mask_without_the_last(stage)
    backup.mkdir()
    for file in (log, counter):
        shutil.copy(file, backup)
    tell(f"a backup of the server is made; then the vector of client {VICTIM} comes, and the step closes")
    stage.hand_over(VICTIM, vector)
    stage.close()
    for client in ASKED_FIRST:
        stage.ask(client, stage.requests[client])
    tell(f"{names(ASKED_FIRST)} release shares of b_{VICTIM}; the server dies, and its backup is restored")
    opened.close()
    for file in (log,) if defended else (log, counter):
        shutil.copy(backup / file.name, file)
    opened = RoundLog(log, counter=counter)
    stage.server = Server(config, log=opened)
    try:
        stage.server.replay()
    except StaleLog as failure:
        opened.close()
        summary = f"the round has failed: {str(failure).replace(str(folder), '')}"
        return Outcome(succeeded=False, summary=summary, victim=vectors[VICTIM])
    tell(f"it has no vector of client {VICTIM}: the step closes again, and the others are asked for s_{VICTIM}")
    stage.close()
    opened.close()
    for client, request in stage.requests.items():
        stage.ask(client, request)
    return stage.steal({VICTIM})


def _mask_without_the_last(stage: Stage) -> bytes:
    """Hand all vectors over but the victim's, which is returned."""
    replies = stage.replies()
    for client, reply in replies.items():
        if client != VICTIM:
            stage.hand_over(client, reply)
    return replies[VICTIM]


RESTORED = (
    Attack(
        number="S27",
        name="old-log",
        title="a server restored from before a step that it had closed, clients asked again",
        guard="curious",
        defence="a counter of openings, which is not restored with the log",
        run=old_log,
    ),
)
