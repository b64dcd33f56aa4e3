"""The guard ``active`` is for a server that may lie. Rules R1 to R3 are in docs/security.md.

Clients check what the server says against signatures and the committed roster. Nothing on the server's side
is trusted by them; an honest server checks every signature itself, so that a client that signs badly is
refused at once instead of making its neighbours abort. There are five steps, six with *accept*.
"""

from ccesa.protocol import messages as m
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.active.client_1a_accept import AcceptedAmong
from ccesa.protocol.active.client_2_mask import SignedV2
from ccesa.protocol.active.client_2c_confirm import Confirmed
from ccesa.protocol.client_states import Advertised, Joined
from ccesa.protocol.steps import Step

# Each row: the files of the step, the request that opens it, the reply, and the client's state before it.
_ADVERTISE = Step.of(__name__, "0_advertise", m.AdvertiseRequest, m.SignedAdvertiseReply, Joined)
_SHARE = Step.of(__name__, "1_share", m.RosterRequest, m.ShareReply, Advertised)
_ACCEPT = Step.of(__name__, "1a_accept", m.AcceptRequest, m.AcceptReply, Rostered)
_MASK = Step.of(__name__, "2_mask", m.MaskAmongRequest, m.SignedMaskReply, AcceptedAmong)
_MASK_AT_ONCE = Step.of(
    __name__, "2_mask_at_once", m.MaskAmongAtOnceRequest, m.SignedMaskReply, Rostered, instead=m.Complaint
)
_CONFIRM = Step.of(__name__, "2c_confirm", m.ConfirmRequest, m.ConfirmReply, SignedV2)
_UNMASK = Step.of(__name__, "3_unmask", m.SignedUnmaskRequest, m.UnmaskReply, Confirmed)

#: Without and with *accept*.
STEPS = {
    False: (_ADVERTISE, _SHARE, _MASK_AT_ONCE, _CONFIRM, _UNMASK),
    True: (_ADVERTISE, _SHARE, _ACCEPT, _MASK, _CONFIRM, _UNMASK),
}
