"""Step 2, client side, rule R1: mask the vector with all neighbours in V2, and sign that V2 and the task."""

from dataclasses import dataclass

from ccesa.errors import FaultyServer
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.checks import part_of
from ccesa.protocol.active.client_1a_accept import AcceptedAmong
from ccesa.protocol.client_states import Holding, Membership, Round
from ccesa.protocol.masking import held_among, mask_vector


@dataclass(frozen=True, kw_only=True)
class SignedV2(Holding):
    """After step 2 the vector is out, masked among this V2, for this task."""

    root: bytes
    v2: bytes
    task: bytes


def answer(
    round: Round[Membership], state: AcceptedAmong, request: m.MaskAmongRequest
) -> tuple[SignedV2, m.SignedMaskReply]:
    """Mask with the neighbours in V2, all of whose shares must have been accepted."""
    return masked(round, state, request.v2, request.task)


def masked(
    round: Round[Membership], state: AcceptedAmong, packed: bytes, task: bytes
) -> tuple[SignedV2, m.SignedMaskReply]:
    """Mask among this V2, for this task, and sign both."""
    v2 = part_of(round, "V2", packed, "V1", state.v1)
    live = v2[state.near.members]
    if v2[state.members].sum() != live.sum():
        raise FaultyServer("a neighbour is in V2 whose shares this client was not shown")
    held = held_among(state, live)
    among = signed_texts.among(round.context, round.client, packed)
    counted, said = mask_vector(round, state, held["near"], task, among, m.SignedMaskReply)
    what = (round.context, state.root, packed, task)
    sign = round.own.identity.sign
    return SignedV2(**held, counted=counted, root=state.root, v2=packed, task=task), m.SignedMaskReply(
        **round.head,
        **said,
        signature=sign(signed_texts.masking_text(*what)),
        receipt=sign(signed_texts.receipt_text(*what, said["digest"])),
    )
