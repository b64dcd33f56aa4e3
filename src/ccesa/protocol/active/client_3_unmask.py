"""Step 3, client side, rule R3: release shares only with enough signatures on the very same V2 and V3."""

from ccesa.errors import FaultyServer
from ccesa.graphs.neighbourhood import Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.active.checks import check_signature
from ccesa.protocol.active.client_2c_confirm import Confirmed
from ccesa.protocol.client_states import Done, Membership, Round
from ccesa.protocol.masking import check_enough, check_hidden, release


def answer(
    round: Round[Membership], state: Confirmed, request: m.SignedUnmaskRequest
) -> tuple[Done, m.UnmaskReply]:
    """Release one share of each member; who survived was settled in step 2c."""
    survived = m.unpack_set("V3", state.v3, round.config.clients)[state.near.members]
    live = state.near.among(survived)
    check_confirmed(round, state, live, request)
    check_enough(live, state.threshold)
    check_hidden(live)
    return Done(), release(round, state, survived)


def check_confirmed(
    round: Round[Membership], state: Confirmed, live: Neighbourhood, request: m.SignedUnmaskRequest
) -> None:
    """Require that every surviving neighbour signed this V2 and task, and at least t of them this V3."""
    kinds = m.checked(request, round.config, live.degree).confirmed
    if kinds.translate(None, b"\x00\x01"):
        raise FaultyServer("a flag that is neither 0 nor 1")
    what = (round.context, state.root, state.v2, state.task)
    masking, confirmed = signed_texts.masking_text(*what), signed_texts.confirmed_text(*what, state.v3)
    signatures = m.each(request, "signatures", round.config)
    for client, kind, signature in zip(live.neighbours, kinds, signatures, strict=True):
        # Whoever confirmed this V2 and V3 has masked among this V2: an honest client signs no other.
        check_signature(round, client, signature, confirmed if kind else masking, "the survivors")
    if sum(kinds) < state.threshold:
        raise FaultyServer(
            f"expected {state.threshold} neighbours to confirm the survivors before any share is released, "
            f"got {sum(kinds)}"
        )
