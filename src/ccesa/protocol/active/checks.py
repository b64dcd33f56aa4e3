"""A client of the active guard makes these checks in more than one step."""

import numpy as np

from ccesa.crypto import primitives
from ccesa.errors import FaultyServer
from ccesa.graphs.neighbourhood import Flags
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Membership, Round


def check_size(name: str, members: Flags, least: int) -> None:
    """Refuse a set that is smaller than the charter demands."""
    found = np.count_nonzero(members)
    if found < least:
        raise FaultyServer(f"{found} clients in {name}, the charter demands {least}")


def part_of(round: Round[Membership], name: str, packed: bytes, whole: str, members: Flags) -> Flags:
    """Read a set that may only shrink, and must contain this client."""
    found = m.unpack_set(name, packed, round.config.clients)
    added = found > members
    if added.any():
        raise FaultyServer(f"client {added.argmax()} is in {name} and not in {whole}")
    if not found[round.client]:
        raise FaultyServer(f"the server leaves this client itself out of {name} and asks it to go on")
    return found


def check_signature(round: Round[Membership], client: int, signature: bytes, text: bytes, what: str) -> None:
    """Refuse a text that the identity in this client's place on the list did not sign."""
    try:
        primitives.verify(round.own.charter.admission.key(client), signature, text)
    except primitives.BadSignature as error:
        raise FaultyServer(f"client {client} did not sign {what} as the server shows them") from error
