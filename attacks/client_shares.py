"""Rows C1 to C3: clients that lie about shares."""

import os
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import changed, under
from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD
from ccesa.errors import CorruptShares
from ccesa.graphs.assignment import Nodes
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import dealing
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.summing import Rebuilding, Unmasking

LIAR = 4
#: Nine holders and t = 5: two wrong shares of a secret can be corrected.
_THRESHOLD = Fixed(t=5)


class UncorrectedRebuilding(Rebuilding):
    """Without error correction: the first t shares fit, or the round is lost."""

    def _correct(self, node: int) -> tuple[bytes, Nodes]:
        raise CorruptShares(int(self.evolution.graph.ids[node]), "the first of them give another secret")


class UncorrectedUnmasking(Unmasking):
    _rebuilt = relaxed(Unmasking._rebuilt, Rebuilding=UncorrectedRebuilding)  # noqa: SLF001


class UncheckedUnmasking(Unmasking):
    """Without the commitment to b_i: whatever the shares give is taken."""

    def _is_promised(self, node: int, secret: bytes) -> bool:
        return True


class UncorrectedServer(Weakened, Server):
    weaker = weaken(unmask=in_step(close=without(Unmasking=UncorrectedUnmasking)))


class UncheckedServer(Weakened, Server):
    weaker = weaken(unmask=in_step(close=without(Unmasking=UncheckedUnmasking)))


class UnsizedServer(Weakened, Server):
    """Without a check of the size of what a client releases."""

    weaker = weaken(unmask=in_step(take=without(m=SimpleNamespace(check=lambda reply, *_: reply))))


def _split_another(secrets: shamir.Elements, *others: Any) -> shamir.Elements:
    """Split another b than the one that is first among these secrets."""
    another = shamir.random_elements(os.urandom, shamir.SECRET_ELEMENTS)
    return shamir.split(np.concatenate([another, secrets[shamir.SECRET_ELEMENTS :]]), *others)


_deal_another = relaxed(dealing.deal, shamir=SimpleNamespace(**{**vars(shamir), "split": _split_another}))


class CrookedDealer(Weakened, Client):
    """Masks with another b, and commits to it, than the one whose shares it deals."""

    weaker = weaken(share=in_step(answer=without(deal=_deal_another)))


def wrong_share(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    server = Server if defence else UncorrectedServer
    stage = under(guard, tell, server=server, threshold=_THRESHOLD).until("unmask")
    tell(f"client {LIAR} releases wrong shares of all its neighbours' secrets")
    stage.step(to_server=lambda client, reply: spoiled(reply) if client == LIAR else reply)
    if stage.is_right and stage.server.aggregate:
        found = stage.server.aggregate
        pairs, suspects = len(found.evidence.pairs()), sorted(found.evidence.suspects(liars=1))
        named = f"{pairs} pairs of whom one lied; if no client has two lying neighbours, {suspects} did"
        return Outcome(succeeded=False, summary=f"corrected, the sum is right, {named}")
    return Outcome(succeeded=True, summary=f"one liar costs everyone the round: {stage.failure}")


def crooked_dealer(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    server = Server if defence else UncheckedServer
    stage = under(guard, tell, server=server, threshold=_THRESHOLD, crooked={LIAR: CrookedDealer})
    tell(f"client {LIAR} deals shares of one b and masks with another")
    stage.to_the_end()
    if stage.server.aggregate is None:
        return Outcome(succeeded=False, summary=f"no sum: {stage.failure}")
    return Outcome(succeeded=not stage.is_right, summary="the server returns a wrong sum and does not know it")


def short_shares(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    server = Server if defence else UnsizedServer
    stage = under(guard, tell, server=server, threshold=_THRESHOLD).until("unmask")
    tell(f"client {LIAR} releases one share where it holds nine")

    def cut(client: int, reply: bytes) -> bytes:
        shares = cast(m.UnmaskReply, m.decode(reply, len(reply))).shares
        return changed(reply, shares=shares[: shamir.SHARE_BYTES]) if client == LIAR else reply

    try:
        stage.step(to_server=cut)
    except (ValueError, IndexError) as crash:  # a weakened server stumbles over what it did not check
        return Outcome(succeeded=True, summary=f"the server crashed half way, the round is lost: {crash!r}")
    return Outcome(succeeded=not stage.is_right, summary=f"refused ({stage.refused[LIAR]}), the sum is right")


def spoiled(reply: bytes) -> bytes:
    """All shares off by one, still in the field."""
    words = np.frombuffer(cast(m.UnmaskReply, m.decode(reply, len(reply))).shares, "<u2").astype(np.int64)
    return changed(reply, shares=shamir.to_bytes(((words + 1) % FIELD).astype(np.uint16)))


SHARE_ATTACKS = (
    Attack(
        number="C1",
        name="wrong-share",
        title="A client releases wrong shares of its neighbours' secrets",
        guard="curious",
        defence="more shares than needed, from which wrong ones are corrected",
        run=wrong_share,
    ),
    Attack(
        number="C2",
        name="crooked-dealer",
        title="A client deals shares of another secret than the one it masks with",
        guard="curious",
        defence="a commitment to b, against which the rebuilt one is checked",
        run=crooked_dealer,
    ),
    Attack(
        number="C3",
        name="short-shares",
        title="A client releases shares of the wrong size",
        guard="curious",
        defence="the exact size of every field is known and checked",
        run=short_shares,
    ),
)
