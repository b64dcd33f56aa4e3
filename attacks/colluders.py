"""Clients that work together with the server: they run the protocol, tell it their keys, and never object."""

from typing import Any

from attacks.eavesdropper import Eavesdropper
from attacks.relaxed import relaxed, skip
from ccesa.protocol import active_client
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.client import Client
from ccesa.protocol.client_steps import Advertised
from ccesa.protocol.messages import Message


class Colluder(Client):
    """Whoever has both of its private keys can open what is sealed for it and compute its masks."""

    told: Eavesdropper | None = None

    def report_to(self, ear: Eavesdropper) -> None:
        self.told = ear

    def _advance(self, state: Any, fingerprint: bytes, reply: Message) -> bytes:
        data = super()._advance(state, fingerprint, reply)
        if isinstance(state, Advertised) and self.told is not None:
            self.told.learn_key(state.sealing_private)
            self.told.learn_key(state.mask_private)
        return data


class ActiveColluder(Colluder, ActiveClient):
    """It signs whatever the server shows it."""

    functions = {  # noqa: RUF012 - the table of the class, as in the client itself
        **ActiveClient.functions,
        "share": relaxed(active_client.share, check_signed_bundles=skip, check_inclusion=skip),
        "unmask": relaxed(active_client.unmask, check_confirmed=skip),
    }
