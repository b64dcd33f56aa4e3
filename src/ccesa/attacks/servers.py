"""Every attack by the server, alone or with colluding clients."""

from ccesa.attacks.base import Attack
from ccesa.attacks.client_cut import CUTS
from ccesa.attacks.server_choice import CHOICES
from ccesa.attacks.server_cut import CHOSEN_DROPOUTS
from ccesa.attacks.server_dropouts import DROPOUT_LIES
from ccesa.attacks.server_roster import ROSTER_LIES
from ccesa.attacks.server_rounds import ROUND_LIES
from ccesa.attacks.server_secrets import SECRET_HUNTS
from ccesa.attacks.server_views import DIFFERENT_VIEWS

SERVER_ATTACKS: tuple[Attack, ...] = tuple(
    sorted(
        (
            *SECRET_HUNTS,
            *DIFFERENT_VIEWS,
            *DROPOUT_LIES,
            *ROSTER_LIES,
            *ROUND_LIES,
            *CHOSEN_DROPOUTS,
            *CHOICES,
            *CUTS,
        ),
        key=lambda attack: int(attack.number[1:]),
    )
)
