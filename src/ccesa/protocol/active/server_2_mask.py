"""Step 2, server side: add masked vectors up, show everyone all of V3."""

from dataclasses import dataclass

from ccesa.agreement.charter import Charter
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.server_0_advertise import check_signed
from ccesa.protocol.active.server_1_share import Among
from ccesa.protocol.server_states import Round, Settled, grown
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import check_asked_for, settle


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirming(Settled):
    """After step 2 V3 is known, and has to be confirmed before shares are asked for."""

    #: What everyone signs in step 2c.
    text: bytes
    #: What the members of V3 have signed in step 2.
    signatures: dict[int, bytes]


def take(round: Round[Charter], state: Among, client: int, reply: m.SignedMaskReply) -> bytes:
    """Check what is added to the sum, and keep the signature that its neighbours will want to see."""
    check_asked_for(round, reply, signed_texts.among(round.context, client, state.packed_v2))
    what = (round.context, state.root, state.packed_v2, round.task)
    check_signed(round, client, reply.signature, signed_texts.masking_text(*what))
    check_signed(round, client, reply.receipt, signed_texts.receipt_text(*what, reply.digest))
    return reply.signature


def close(round: Round[Charter], state: Among, kept: dict[int, bytes]) -> tuple[Confirming, Requests]:
    """Tell each client V3."""
    settled = settle(round, state, kept)
    v3 = m.pack_members(kept, round.config.clients)
    text = signed_texts.confirmed_text(round.context, state.root, state.packed_v2, round.task, v3)
    return grown(Confirming, settled, text=text, signatures=kept), round.requests(
        state.graph, settled.v3, lambda node, head: m.ConfirmRequest(**head, v3=v3)
    )
