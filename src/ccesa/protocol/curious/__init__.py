"""The guard ``curious`` is for a server that follows the protocol and looks at all it sees.

It has four steps, five with *accept*: then what a client cannot open costs an edge and not a client.
"""

from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted, Advertised, Holding, Joined, Shared
from ccesa.protocol.steps import Step

# Each row: the files of the step, the request that opens it, the reply, and the client's state before it.
_ADVERTISE = Step.of(__name__, "0_advertise", m.AdvertiseRequest, m.AdvertiseReply, Joined)
_SHARE = Step.of(__name__, "1_share", m.ShareRequest, m.ShareReply, Advertised)
_ACCEPT = Step.of(__name__, "1a_accept", m.AcceptRequest, m.AcceptReply, Shared)
_MASK = Step.of(__name__, "2_mask", m.MaskRequest, m.MaskReply, Accepted)
_MASK_AT_ONCE = Step.of(
    __name__, "2_mask_at_once", m.MaskAtOnceRequest, m.MaskReply, Shared, instead=m.Complaint
)
_UNMASK = Step.of(__name__, "3_unmask", m.UnmaskRequest, m.UnmaskReply, Holding)

#: Without and with *accept*.
STEPS = {
    False: (_ADVERTISE, _SHARE, _MASK_AT_ONCE, _UNMASK),
    True: (_ADVERTISE, _SHARE, _ACCEPT, _MASK, _UNMASK),
}
