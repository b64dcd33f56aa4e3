"""Rows C4 and C5: clients that lie about their public keys."""

from collections.abc import Callable
from typing import Any, cast

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import Stage, changed, names, under
from ccesa.crypto.keys import AGREEMENTS, X25519
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.drawing import note_keys
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Advertising, ServerRound

LIAR, VICTIM = 4, 2
#: A point of order two: every agreement with it is zero, whoever computes it.
_LOW_ORDER = bytes(32)


class _AnyOrder(X25519):
    def check_keys(self, sealing_key: bytes, mask_key: bytes, *more: bytes) -> None:
        """Take anything."""


_note_any_order = relaxed(note_keys, AGREEMENTS={"x25519": _AnyOrder()})


class UncheckedKeys(Weakened, Server):
    """Without a check of the order of a public key."""

    weaker = weaken(advertise=in_step(take=without(note_keys=_note_any_order)))


def _note_again(round: ServerRound[Any], state: Advertising, reply: m.AnyAdvertiseReply) -> None:
    state.public_keys.clear()
    note_keys(round, state, reply)


class RepeatedKeys(Weakened, Server):
    """Without a memory of the keys that came before."""

    weaker = weaken(advertise=in_step(take=without(note_keys=_note_again)))


def low_order_key(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else UncheckedKeys)
    tell(f"client {LIAR} advertises a mask key of low order")
    return _lie_about_key(stage, lambda: _LOW_ORDER)


def same_key(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else RepeatedKeys)
    tell(f"client {LIAR} has overheard the mask key of client {VICTIM} and advertises it as its own")
    return _lie_about_key(stage, lambda: _keys(stage.clients[VICTIM].receive(stage.requests[VICTIM]))[1])


def _keys(reply: bytes) -> tuple[bytes, ...]:
    return AGREEMENTS["x25519"].public_keys(cast(m.AnyAdvertiseReply, m.decode(reply, len(reply))).keys)


def _lie_about_key(stage: Stage, key: Callable[[], bytes]) -> Outcome:
    stage.step(to_server=lambda client, reply: _with_key(stage, reply, key()) if client == LIAR else reply)
    stage.to_the_end()
    if stage.is_right and stage.server.aggregate:
        others = len(stage.server.aggregate.survivors)
        return Outcome(succeeded=False, summary=f"refused ({stage.refused[LIAR]}), {others} others go on")
    reason = next(iter(stage.aborted.values()), "")
    return Outcome(
        succeeded=stage.failure is not None,
        summary=f"the round is lost for all: {names(stage.aborted)} aborted ({reason})",
    )


def _with_key(stage: Stage, reply: bytes, key: bytes) -> bytes:
    """Signed again under the active guard: the liar owns its identity."""
    keys = _keys(reply)[0] + key
    if not stage.identities:
        return changed(reply, keys=keys)
    text = signed_texts.bundle_text(stage.config.context, LIAR, keys)
    return changed(reply, keys=keys, signature=stage.identities[LIAR].sign(text))


KEY_ATTACKS = (
    Attack(
        number="C4",
        name="low-order-key",
        title="A client advertises a public key of low order",
        guard="curious",
        defence="the server refuses such a key before others see it",
        run=low_order_key,
    ),
    Attack(
        number="C5",
        name="same-key",
        title="A client advertises the public key of another one",
        guard="curious",
        defence="the server takes each public key once",
        run=same_key,
    ),
)
