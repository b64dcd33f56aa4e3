"""All attacks by name."""

from attacks.base import Attack
from attacks.clients import CLIENT_ATTACKS
from attacks.data import DATA_ATTACKS
from attacks.helpers import HELPER_ATTACKS
from attacks.servers import SERVER_ATTACKS
from ccesa.errors import UsageError

ATTACKS: dict[str, Attack] = {
    attack.name: attack for attack in (*SERVER_ATTACKS, *CLIENT_ATTACKS, *DATA_ATTACKS, *HELPER_ATTACKS)
}


def find(name: str) -> Attack:
    """Return the attack of this name, or of this number in docs/security.md."""
    for attack in ATTACKS.values():
        if name.lower() in (attack.name, attack.number.lower()):
            return attack
    raise UsageError(f"there is no attack {name!r}; `python -m attacks list` shows those there are")
