"""A server that loses its machine in the middle of a round, and goes on from a backup. S27: ``curious``.

Nobody lies. The server asks some clients for shares and dies; the one that takes its place has not heard of
the victim's vector and asks the others: these hand over the other secret of the victim.
"""

from attacks.base import Attack, Outcome, Tell
from attacks.colluders import Colluder
from attacks.stage import Stage, inputs, names
from ccesa.agreement.config import RoundConfig
from ccesa.errors import StaleCheckpoint
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server

VICTIM, FRIEND = 3, 8
ASKED_FIRST = (0, 1, 2, VICTIM)


def old_checkpoint(defended: bool, tell: Tell) -> Outcome:
    """With t = 5 of 9 holders, a colluder and 4 more give either secret, and no honest client gives both."""
    config = RoundConfig(clients=9, length=8)
    openings: set[bytes] = set()
    vectors = inputs(config)
    clients = {i: (Colluder if i == FRIEND else Client)(config, i, vectors[i]) for i in vectors}
    stage = Stage(Server(config, openings=openings), clients, vectors, tell).until("mask")
    vector = _mask_without_the_last(stage)
    backup, openings_then = stage.server.checkpoint(), set(openings)
    tell(f"a backup of the server is made; then the vector of client {VICTIM} comes, and the step closes")
    stage.hand_over(VICTIM, vector)
    stage.close()
    for client in ASKED_FIRST:
        stage.ask(client, stage.requests[client])
    tell(f"{names(ASKED_FIRST)} release shares of b_{VICTIM}; the server dies, and its backup is restored")
    stage.server = Server(config, openings=openings if defended else openings_then)
    try:
        stage.server.restore(backup)
    except StaleCheckpoint as failure:
        return Outcome(succeeded=False, summary=f"the round has failed: {failure}", victim=vectors[VICTIM])
    tell(
        f"it has no vector of client {VICTIM}: the step closes again, and the others are asked for s_{VICTIM}"
    )
    stage.close()
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
        name="old-checkpoint",
        title="a server restored from before a step that it had closed, clients asked again",
        guard="curious",
        defence="a memory of which steps have been opened, which is not restored with the server",
        run=old_checkpoint,
    ),
)
