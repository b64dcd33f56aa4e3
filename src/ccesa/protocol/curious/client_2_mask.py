"""Step 2, client side: mask the vector with those neighbours whose shares were accepted and who are left."""

from ccesa.agreement.config import Floor
from ccesa.graphs.neighbourhood import Flags
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client_states import Accepted, Holding, Round
from ccesa.protocol.masking import held_among, mask_vector, still_there


def answer(round: Round[Floor], state: Accepted, request: m.MaskRequest) -> tuple[Holding, m.MaskReply]:
    """Mask with the neighbours that the server does not list as dropped."""
    return masked(round, state, still_there(round, request.dropped, state.near), request.task)


def masked(round: Round[Floor], state: Accepted, live: Flags, task: bytes) -> tuple[Holding, m.MaskReply]:
    """Mask among these members, for this task."""
    held = held_among(state, live)
    near = held["near"]
    among = signed_texts.among(round.context, round.client, m.pack_ids(near.members))
    counted, said = mask_vector(round, state, near, task, among, m.MaskReply)
    return Holding(**held, counted=counted), m.MaskReply(**round.head, **said)
