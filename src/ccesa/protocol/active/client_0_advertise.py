"""Step 0, client side: make keys, and sign their public halves for this round and this client."""

from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client_states import Advertised, Joined, Membership, Round
from ccesa.protocol.dealing import check_number, fresh_keys


def answer(
    round: Round[Membership], state: Joined, request: m.AdvertiseRequest
) -> tuple[Advertised, m.SignedAdvertiseReply]:
    """Make all key pairs, show their public halves and sign them."""
    check_number(round, request)
    advertised = fresh_keys(round)
    keys = advertised.public_keys
    signature = round.own.identity.sign(signed_texts.bundle_text(round.context, round.client, keys))
    return advertised, m.SignedAdvertiseReply(**round.head, keys=keys, signature=signature)
