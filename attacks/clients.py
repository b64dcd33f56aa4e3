"""Attacks by clients: the rows C of docs/security.md."""

from attacks.base import Attack
from attacks.client_accusations import ACCUSATION_ATTACKS
from attacks.client_copies import COPIES
from attacks.client_keys import KEY_ATTACKS
from attacks.client_messages import MESSAGE_ATTACKS
from attacks.client_shares import SHARE_ATTACKS
from attacks.client_text import TEXT_ATTACKS

CLIENT_ATTACKS: tuple[Attack, ...] = tuple(
    sorted(
        (*SHARE_ATTACKS, *KEY_ATTACKS, *MESSAGE_ATTACKS, *ACCUSATION_ATTACKS, *TEXT_ATTACKS, *COPIES),
        key=lambda attack: int(attack.number[1:]),
    )
)
