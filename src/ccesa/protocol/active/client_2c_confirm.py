"""Step 2c, client side, rules R2 and R4: sign one V3, if enough of the neighbourhood is in it."""

from dataclasses import dataclass

from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.checks import check_size, part_of
from ccesa.protocol.active.client_2_mask import SignedV2
from ccesa.protocol.client_states import Membership, Round
from ccesa.protocol.masking import check_enough


@dataclass(frozen=True, kw_only=True)
class Confirmed(SignedV2):
    """After step 2c one V3 is confirmed, and no other ever will be."""

    v3: bytes


def answer(
    round: Round[Membership], state: SignedV2, request: m.ConfirmRequest
) -> tuple[Confirmed, m.ConfirmReply]:
    """Sign V2, the task and V3 together."""
    v2 = m.unpack_set("V2", state.v2, round.config.clients)
    v3 = part_of(round, "V3", request.v3, "V2", v2)
    check_enough(state.near.among(v3[state.near.members]), state.threshold)
    check_size("V3", v3, round.config.min_survivors)
    round.spend.check_latest(state.counted)
    text = signed_texts.confirmed_text(round.context, state.root, state.v2, state.task, request.v3)
    signature = round.own.identity.sign(text)
    return Confirmed(**vars(state), v3=request.v3), m.ConfirmReply(**round.head, signature=signature)
