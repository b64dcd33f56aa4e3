"""Step 2 without *accept*, server side: some complain, and are out like those that dropped."""

from ccesa.agreement.charter import Charter
from ccesa.evidence import Accusation
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import take_complaint
from ccesa.protocol.active import server_2_mask
from ccesa.protocol.active.server_1_share import Among
from ccesa.protocol.server_states import Round

close = server_2_mask.close


def take(
    round: Round[Charter], state: Among, client: int, reply: m.SignedMaskReply | m.Complaint
) -> bytes | frozenset[Accusation]:
    """Check what is added to the sum and keep its signature, or note a complaint."""
    if isinstance(reply, m.Complaint):
        return take_complaint(round, state, client, reply)
    return server_2_mask.take(round, state, client, reply)
