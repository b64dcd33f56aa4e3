"""The guard ``curious``: four steps with a server that follows the protocol, and looks at all it sees."""

from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Holding, Joined, Shared
from ccesa.protocol.curious import (
    client_0_advertise,
    client_1_share,
    client_2_mask,
    client_3_unmask,
    server_0_advertise,
    server_1_share,
    server_2_mask,
    server_3_unmask,
)
from ccesa.protocol.steps import Step

#: Each row: the request that opens the step, the reply, the client's state before it, and both sides.
STEPS = (
    Step.of(
        "advertise", m.AdvertiseRequest, m.AdvertiseReply, Joined, client_0_advertise, server_0_advertise
    ),
    Step.of("share", m.ShareRequest, m.ShareReply, Advertised, client_1_share, server_1_share),
    Step.of("mask", m.MaskRequest, m.MaskReply, Shared, client_2_mask, server_2_mask, m.Complaint),
    Step.of("unmask", m.UnmaskRequest, m.UnmaskReply, Holding, client_3_unmask, server_3_unmask),
)
