"""The guard ``active``: five steps with a server that may lie. Rules R1 to R3 are those of docs/security.md.

Clients check what the server says against signatures and the committed roster. Nothing on the server's side
is trusted by them; an honest server checks every signature itself, so that a client that signs badly is
refused at once instead of making its neighbours abort.
"""

from ccesa.protocol import messages as m
from ccesa.protocol.active import (
    client_0_advertise,
    client_1_share,
    client_2_mask,
    client_2c_confirm,
    client_3_unmask,
    server_0_advertise,
    server_1_share,
    server_2_mask,
    server_2c_confirm,
    server_3_unmask,
)
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.active.client_2_mask import SignedV2
from ccesa.protocol.active.client_2c_confirm import Confirmed
from ccesa.protocol.client_states import Advertised, Joined
from ccesa.protocol.steps import Step

#: Each row: the request that opens the step, the reply, the client's state before it, and both sides.
STEPS = (
    Step.of(
        "advertise",
        m.AdvertiseRequest,
        m.SignedAdvertiseReply,
        Joined,
        client_0_advertise,
        server_0_advertise,
    ),
    Step.of("share", m.RosterRequest, m.ShareReply, Advertised, client_1_share, server_1_share),
    Step.of(
        "mask", m.MaskAmongRequest, m.SignedMaskReply, Rostered, client_2_mask, server_2_mask, m.Complaint
    ),
    Step.of("confirm", m.ConfirmRequest, m.ConfirmReply, SignedV2, client_2c_confirm, server_2c_confirm),
    Step.of("unmask", m.SignedUnmaskRequest, m.UnmaskReply, Confirmed, client_3_unmask, server_3_unmask),
)
