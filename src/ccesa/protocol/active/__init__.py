"""The guard ``active`` has five steps, with a server that may lie. Rules R1 to R3 are in docs/security.md.

Clients check what the server says against signatures and the committed roster. Nothing on the server's side
is trusted by them; an honest server checks every signature itself, so that a client that signs badly is
refused at once instead of making its neighbours abort.
"""

from ccesa.protocol import messages as m
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.active.client_2_mask import SignedV2
from ccesa.protocol.active.client_2c_confirm import Confirmed
from ccesa.protocol.client_states import Advertised, Joined
from ccesa.protocol.steps import Step

#: Each row: the files of the step, the request that opens it, the reply, and the client's state before it.
STEPS = (
    Step.of(__name__, "0_advertise", m.AdvertiseRequest, m.SignedAdvertiseReply, Joined),
    Step.of(__name__, "1_share", m.RosterRequest, m.ShareReply, Advertised),
    Step.of(__name__, "2_mask", m.MaskAmongRequest, m.SignedMaskReply, Rostered, instead=m.Complaint),
    Step.of(__name__, "2c_confirm", m.ConfirmRequest, m.ConfirmReply, SignedV2),
    Step.of(__name__, "3_unmask", m.SignedUnmaskRequest, m.UnmaskReply, Confirmed),
)
