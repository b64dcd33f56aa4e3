"""Step 0, client side: make keys, and show their public halves."""

from ccesa.agreement.config import Floor
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Joined, Round
from ccesa.protocol.dealing import check_number, fresh_keys


def answer(
    round: Round[Floor], state: Joined, request: m.AdvertiseRequest
) -> tuple[Advertised, m.AdvertiseReply]:
    """Make all key pairs and show their public halves."""
    check_number(round, request)
    advertised = fresh_keys(round)
    return advertised, m.AdvertiseReply(**round.head, keys=advertised.public_keys)
