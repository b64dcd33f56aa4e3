"""The steps of a round, in order: the one table that says what is legal when.

A step opens with its request and is answered with its reply, or with what may come instead. A client in state
k accepts the request of step k and nothing else; a server in step k accepts its replies and nothing else.
Drivers loop until the server has no requests left and never count steps.
"""

from typing import NamedTuple

from ccesa.protocol import messages as m


class Step(NamedTuple):
    name: str
    request: type[m.Message]
    reply: type[m.Message]
    #: What a client may answer that cannot go on; it is out of the round then.
    instead: type[m.Message] | None = None

    @property
    def replies(self) -> tuple[type[m.Message], ...]:
        return (self.reply,) if self.instead is None else (self.reply, self.instead)


ADVERTISE = Step("advertise", m.AdvertiseRequest, m.AdvertiseReply)
SHARE = Step("share", m.ShareRequest, m.ShareReply)
MASK = Step("mask", m.MaskRequest, m.MaskReply, m.Complaint)
UNMASK = Step("unmask", m.UnmaskRequest, m.UnmaskReply)

SIGNED_ADVERTISE = Step("advertise", m.AdvertiseRequest, m.SignedAdvertiseReply)
ROSTER_SHARE = Step("share", m.RosterRequest, m.ShareReply)
SIGNED_MASK = Step("mask", m.MaskAmongRequest, m.SignedMaskReply, m.Complaint)
CONFIRM = Step("confirm", m.ConfirmRequest, m.ConfirmReply)
SIGNED_UNMASK = Step("unmask", m.SignedUnmaskRequest, m.UnmaskReply)

STEPS: dict[str, tuple[Step, ...]] = {
    "curious": (ADVERTISE, SHARE, MASK, UNMASK),
    "active": (SIGNED_ADVERTISE, ROSTER_SHARE, SIGNED_MASK, CONFIRM, SIGNED_UNMASK),
}
