"""Clients that work together with the server: they run the protocol, tell it their keys, and never object."""

from typing import Any

from attacks.eavesdropper import Eavesdropper
from attacks.relaxed import Weakened, in_step, skip, weaken, without
from ccesa.crypto import shamir
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.client_states import Advertised
from ccesa.protocol.messages import Message


class Colluder(Client):
    """Whoever has all of its private keys can open what is sealed for it and compute its masks."""

    told: Eavesdropper | None = None

    def report_to(self, ear: Eavesdropper) -> None:
        self.told = ear

    def _advance(self, state: Any, fingerprint: bytes, reply: Message) -> bytes:
        data = super()._advance(state, fingerprint, reply)
        if isinstance(state, Advertised) and self.told is not None:
            self.told.learn_key(state.sealing_private)
            self.told.learn_key(state.mask_private)
            self.told.learn_kem_seed(state.kem_seed)
            self.told.learn_mask_secret(self.client, shamir.to_bytes(state.mask_secret))
        return data


class ActiveColluder(Weakened, Colluder, ActiveClient):
    """It signs whatever the server shows it."""

    weaker = weaken(
        share=in_step(answer=without(check_signed_keys=skip, check_inclusion=skip)),
        unmask=in_step(answer=without(check_confirmed=skip)),
    )
