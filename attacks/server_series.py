"""A server that plays rounds of a series against each other. S25, S36, S37: ``curious`` has to hold."""

from typing import Any

from attacks.base import Attack, Outcome, Tell
from attacks.eavesdropper import StillHidden
from attacks.series_stage import SeriesStage, messages
from attacks.server_rounds import keeping_keys
from attacks.stage import opened
from ccesa import labels
from ccesa.crypto import keys
from ccesa.memory import ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol.client import Client
from ccesa.protocol.series_client import SeriesClient

VICTIM = 3
TASK = labels.digest(b"the model")

# S25


def mixed_rounds(defended: bool, tell: Tell) -> Outcome:
    """Keep the victim in round 0 and drop it from round 1: b_v of the one, s_v of the other."""
    stage = SeriesStage(tell, rounds=2, kind=Client if defended else keeping_keys({}))
    _mix_messages(stage)
    stage.exchange()  # vectors of round 0, shares of round 1
    stage.exchange()  # round 0 is opened
    tell(f"server pretends that client {VICTIM} drops out of round 1, and is given s_{VICTIM} for it")
    stage.exchange(gone={VICTIM})
    stage.exchange()
    tell(f"server tries that s_{VICTIM} on the vector of round 0, of which it has b_{VICTIM}")
    first, wanted = stage.overheard(0), stage.vectors[VICTIM]
    secret = stage.overheard(1).secret(VICTIM, "s")
    first.learn_key(keys.mask_private_key(secret, first.context, VICTIM))
    try:
        return opened(first.open({VICTIM}), wanted, "a key that was opened in round 1 opens round 0")
    except StillHidden as hidden:
        return Outcome(succeeded=False, summary=str(hidden), victim=wanted)


def _mix_messages(stage: SeriesStage) -> None:
    """Up to the exchange in which shares of round 0 are accepted, with lies to three clients on the way."""
    stage.exchange()
    (old,) = messages(stage.requests[0])
    stage.exchange()
    stage.open()
    stage.tell("server sends client 0 the advertise of round 0 again, as part of this exchange")
    stage.ask(0, envelope.pack([old, *messages(stage.requests[0])[1:]]))
    accept, advertise = messages(stage.requests[1])
    stage.tell("server holds round 0 back from client 1 while round 1 goes on, and sends it later")
    stage.ask(1, envelope.pack([advertise]))
    stage.ask(1, envelope.pack([accept]))
    stage.tell("server sends client 2 the accept of round 0 twice, in one envelope")
    accept, _ = messages(stage.requests[2])
    stage.ask(2, envelope.pack([accept, accept]))
    for client, reason in stage.refused.items():
        stage.tell(f"  client {client} refuses: {reason}")
    stage.finish()


# S36


def lost_on_purpose(defended: bool, tell: Tell) -> Outcome:
    """Call a round lost whose sum is known, and repeat it without the victim."""
    memories: dict[int, ProcessMemory] = {}

    def options(client: int) -> dict[str, Any]:
        memory = memories.setdefault(client, ProcessMemory()) if defended else None
        return {"task": TASK, "tasks": memory}

    stage = SeriesStage(tell, rounds=2, options=options)
    wanted = stage.vectors[VICTIM]
    for _ in range(5):
        ended = stage.exchange(TASK)
    (first,) = ended
    tell("server opens round 0, and calls it lost: round 1 is to repeat it")
    tell(f"server pretends that client {VICTIM} drops out this time, and subtracts the two sums")
    ended = stage.exchange(TASK, gone={VICTIM})
    if ended:
        client, reason = next(iter(stage.refused.items()))
        summary = f"client {client} sent no second vector ({reason}): {ended[0].failure}"
        return Outcome(succeeded=False, summary=summary, victim=wanted)
    (second,) = stage.exchange(TASK)
    difference = first.result().vector - second.result().vector
    return opened(difference, wanted, "two sums of one task differ by it")


# S37


class Forgetful(SeriesClient):
    """Goes back to any number and exchange."""

    def _placed(self, messages: Any) -> Any:
        self._exchange, self._last_number, self._used = -1, -1, None
        for number in [number for number, client in self._clients.items() if client.done]:
            self._drop(number)
        return super()._placed(messages)


def same_number(defended: bool, tell: Tell) -> Outcome:
    """Run round 0 twice in one series, with and without the victim."""
    stage = SeriesStage(tell, rounds=1, member=SeriesClient if defended else Forgetful)
    for _ in range(5):
        ended = stage.exchange()
    known, wanted = ended[0].result().vector, stage.vectors[VICTIM]
    tell("server opens round 0 of the same series again")
    stage.series = type(stage.series)(stage.config, rounds=1)
    tell(f"server pretends that client {VICTIM} drops out this time, and subtracts the two sums")
    for gone in ((), (), (), {VICTIM}, ()):
        if stage.series.finished:
            break
        ended = stage.exchange(gone=gone)
    if ended[0].failure is not None:
        reason = next(iter(stage.refused.values()))
        return Outcome(succeeded=False, summary=f"every client refused: {reason}", victim=wanted)
    return opened(known - ended[0].result().vector, wanted, "the same round was run twice")


SERIES_LIES = (
    Attack(
        number="S25",
        name="mixed-rounds",
        title="rounds of a series replayed, held back, and a client kept in one and dropped from the next",
        guard="curious",
        defence="every round has keys and a context of its own, and an exchange has one message of each",
        run=mixed_rounds,
    ),
    Attack(
        number="S36",
        name="lost-on-purpose",
        title="a round whose sum is known is called lost, and repeated without one client",
        guard="curious",
        defence="a client remembers what it has sent and released for a task, whatever became of the round",
        run=lost_on_purpose,
    ),
    Attack(
        number="S37",
        name="same-number",
        title="two rounds of a series with the same number, or a lower one",
        guard="curious",
        defence="a client joins a higher number than before, and exchanges go forward",
        run=same_number,
    ),
)
