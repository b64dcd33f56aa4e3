"""Every attack by the server, alone or with colluding clients."""

from attacks.base import Attack
from attacks.client_accusations import GANGS
from attacks.client_cut import CUTS
from attacks.client_noise import MISSING_NOISE
from attacks.hub_restored import RESTORED_HUBS
from attacks.server_attempts import ATTEMPT_LIES
from attacks.server_choice import CHOICES
from attacks.server_cut import CHOSEN_DROPOUTS
from attacks.server_dropouts import DROPOUT_LIES
from attacks.server_restored import RESTORED
from attacks.server_roster import ROSTER_LIES
from attacks.server_rounds import ROUND_LIES
from attacks.server_secrets import SECRET_HUNTS
from attacks.server_series import SERIES_LIES
from attacks.server_tasks import TASK_LIES
from attacks.server_views import DIFFERENT_VIEWS

SERVER_ATTACKS: tuple[Attack, ...] = tuple(
    sorted(
        (
            *SECRET_HUNTS,
            *DIFFERENT_VIEWS,
            *DROPOUT_LIES,
            *ROSTER_LIES,
            *ROUND_LIES,
            *TASK_LIES,
            *SERIES_LIES,
            *ATTEMPT_LIES,
            *CHOSEN_DROPOUTS,
            *CHOICES,
            *CUTS,
            *MISSING_NOISE,
            *RESTORED,
            *RESTORED_HUBS,
            *GANGS,
        ),
        key=lambda attack: int(attack.number[1:]),
    )
)
