"""Step 2, client side, rule R1: mask the vector with all neighbours in V2, and sign that V2."""

from dataclasses import dataclass

from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.checks import part_of
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.client_states import Done, Holding, Membership, Round
from ccesa.protocol.masking import check_enough, check_hidden, mask_vector, take_hold


@dataclass(frozen=True, kw_only=True)
class SignedV2(Holding):
    """After step 2 the vector is out, masked among this V2."""

    root: bytes
    v2: bytes


def answer(
    round: Round[Membership], state: Rostered, request: m.MaskAmongRequest
) -> tuple[SignedV2, m.SignedMaskReply] | tuple[Done, m.Complaint]:
    """Open the shares of the neighbours in V2, mask with these neighbours, and sign that V2."""
    v2 = part_of(round, "V2", request.v2, "V1", state.v1)
    live = state.near.among(v2[state.near.members])
    check_enough(live, state.threshold)
    check_hidden(live)
    held = take_hold(round, state, live, request)
    if isinstance(held, m.Complaint):
        return Done(), held
    vector = mask_vector(round, state, live)
    signature = round.own.identity.sign(signed_texts.masking_text(round.context, state.root, request.v2))
    signed = SignedV2(**vars(held), root=state.root, v2=request.v2)
    return signed, m.SignedMaskReply(**round.head, **vector, signature=signature)
