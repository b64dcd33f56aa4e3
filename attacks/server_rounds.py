"""A server that lies about the round itself: its parameters, whether it is new.

S12, S13, S14: ``curious`` has to hold.
"""

import os
from collections.abc import MutableSet
from dataclasses import replace
from typing import Any

import msgspec

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, weaken
from attacks.stage import Stage, changed, curious, inputs, opened
from ccesa.agreement.config import BARE_FLOOR, Floor, RoundConfig
from ccesa.crypto import keys, primitives, shamir
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, Graph, Harary
from ccesa.protocol import curious_client
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Advertised, ClientRound, Joined

VICTIM = 3

# S12

FLOOR = Floor(clients=10, degree=6, threshold=4, threshold_ratio=0.6, survivors=5)


class NoFloor(Client):
    """Takes whatever the server proposes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "floor": BARE_FLOOR})


def weak_parameters(defended: bool, tell: Tell) -> Outcome:
    """A round of three: one is the server's own, one is said to have dropped, the sum is the victim's."""
    tell(f"every client insists on {FLOOR}")
    offers: dict[str, tuple[int, Graph, int]] = {
        "2 neighbours": (12, Harary(degree=2), 5),
        "30 neighbours, 16 of whom open a secret": (40, Harary(degree=30), 5),
        "sums of 2": (12, Complete(), 2),
        "3 clients": (3, Complete(), 2),
    }
    refused = [_refuses(what, *offer, tell=tell) for what, offer in offers.items()] if defended else []
    if defended and all(refused):
        return Outcome(succeeded=False, summary="every offer was refused before a key was made")
    config = RoundConfig(clients=3, length=8, min_survivors=2)
    stage = curious(config, tell, kind=NoFloor, colluders={1}, floor=FLOOR)
    tell("server proposes a round of 3; client 1 is its own, and it pretends that client 2 drops out")
    total = stage.finish({"share": {2}}).vector
    return opened(total - stage.vectors[1], stage.vectors[0], "the sum, without its own client's part, is client 0's")


def _refuses(what: str, clients: int, graph: Graph, survivors: int, *, tell: Tell) -> bool:
    drawn: list[int] = []

    def random(count: int) -> bytes:
        drawn.append(count)
        return os.urandom(count)

    config = RoundConfig(clients=clients, length=8, graph=graph, min_survivors=survivors)
    try:
        Client(config, 0, inputs(config)[0], floor=FLOOR, random=random)
    except ConfigError as error:
        tell(f"server proposes {what}; client 0 refuses: {error}")
        return not drawn
    return False


# S13


class Forgetful(Client):
    """Does not remember which rounds it took part in."""

    def __init__(self, *arguments: Any, used_rounds: MutableSet[bytes] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)


def replayed_round(defended: bool, tell: Tell) -> Outcome:
    """Run the same round twice, with and without the victim: the difference is its vector."""
    config = RoundConfig(clients=9, length=8)
    kind = Client if defended else Forgetful
    vectors = inputs(config)
    memories: dict[int, set[bytes]] = {i: set() for i in range(config.clients)}

    def play(config: RoundConfig) -> Stage:
        return curious(config, tell, kind=kind, vectors=vectors, used_rounds=memories)

    first = play(config)
    with_victim = first.finish().vector
    if defended:
        _replay_messages(first, play(RoundConfig(clients=9, length=8)))
    tell("server opens the same round again, with the same series id and number")
    try:
        second = play(config)
    except ConfigError as error:
        return Outcome(succeeded=False, summary=f"client 0 refused: {error}")
    tell(f"server pretends that client {VICTIM} drops out this time, and subtracts the two sums")
    without = second.finish({"mask": {VICTIM}}).vector
    return opened(with_victim - without, vectors[VICTIM], "the same round was run twice, the sums differ by it")


def _replay_messages(old: Stage, new: Stage) -> None:
    """The other half of the row: bytes of the first round in the next one, as they are and relabelled."""
    new.tell("server sends a request of the first round to client 0 in the next one")
    new.until("mask", {"advertise": {0}})
    new.ask(0, m.AdvertiseRequest(context=old.config.context, client=0, number=bytes(m.NUMBER_BYTES)).encode())
    new.tell("server sends client 1 the sealed shares of the first round, relabelled")
    sealed = b"".join(old.overheard[j].sealed[1] for j in new.overheard[1].neighbours)
    new.ask(1, changed(new.requests[1], sealed=sealed))
    new.tell_aborts()


# S14


def keeping_keys(kept: dict[int, shamir.Elements]) -> type[Client]:
    """A client that uses the secret of its mask key in every round."""

    def advertise(
        round: ClientRound[Floor], state: Joined, request: m.AdvertiseRequest
    ) -> tuple[Advertised, m.AdvertiseReply]:
        fresh, reply = curious_client.advertise(round, state, request)
        secret = kept.setdefault(round.client, fresh.mask_secret)
        private = keys.mask_private_key(shamir.to_bytes(secret), round.context, round.client)
        public = fresh.public_keys[:PUBLIC_KEY_BYTES] + primitives.public_key(private)
        kept_again = replace(fresh, mask_secret=secret, mask_private=private, public_keys=public)
        return kept_again, msgspec.structs.replace(reply, keys=public)

    class KeepsKeys(Weakened, Client):
        weaker = weaken(advertise=in_step(answer=lambda _: advertise))

    return KeepsKeys


def reused_keys(defended: bool, tell: Tell) -> Outcome:
    """b_v from a round in which v survived, s_v from the next one, in which it is said to have dropped."""
    kind = Client if defended else keeping_keys({})
    first = curious(RoundConfig(clients=9, length=8), tell, kind=kind)
    first.finish()
    tell(f"server pretends that client {VICTIM} drops out of the next round, and is given s_{VICTIM} for it")
    second = curious(RoundConfig(clients=9, length=8), tell, kind=kind)
    second.finish({"mask": {VICTIM}})
    tell(f"server tries that s_{VICTIM} on the vector of the round before")
    secret = second.overheard.secret(VICTIM, "s")
    first.overheard.learn_key(keys.mask_private_key(secret, first.config.context, VICTIM))
    tell(f"  {_common_keys(first, second)} public keys are the same in both rounds")
    if not defended:
        tell("  they look fresh because the context is part of their derivation; the secret behind them is not")
    return first.steal({VICTIM})


def _common_keys(first: Stage, second: Stage) -> int:
    """The two halves of what each client advertised."""
    pairs = [[seen.keys for seen in stage.overheard.seen.values()] for stage in (first, second)]
    one, other = ({half for pair in some for half in (pair[:32], pair[32:])} for some in pairs)
    return len(one & other)


ROUND_LIES = (
    Attack(
        number="S12",
        name="weak-parameters",
        title="clients, degree, threshold or survivors below the client's own floor",
        guard="curious",
        defence="the client's own floor, checked before it makes keys",
        run=weak_parameters,
    ),
    Attack(
        number="S13",
        name="replayed-round",
        title="the same round twice, and messages of another round",
        guard="curious",
        defence="a client remembers the rounds it took part in",
        run=replayed_round,
    ),
    Attack(
        number="S14",
        name="reused-keys",
        title="a key that was opened in one round, tried on another",
        guard="curious",
        defence="fresh keys in every round",
        run=reused_keys,
    ),
)
