"""The guard ``curious`` has four steps, with a server that follows the protocol and looks at all it sees."""

from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Holding, Joined, Shared
from ccesa.protocol.steps import Step

#: Each row: the files of the step, the request that opens it, the reply, and the client's state before it.
STEPS = (
    Step.of(__name__, "0_advertise", m.AdvertiseRequest, m.AdvertiseReply, Joined),
    Step.of(__name__, "1_share", m.ShareRequest, m.ShareReply, Advertised),
    Step.of(__name__, "2_mask", m.MaskRequest, m.MaskReply, Shared, instead=m.Complaint),
    Step.of(__name__, "3_unmask", m.UnmaskRequest, m.UnmaskReply, Holding),
)
