"""Step *accept*, client side: open what the neighbours sealed, and name those whose texts cannot be used."""

from dataclasses import dataclass

from ccesa.graphs.neighbourhood import Flags, Ids
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import accept_reply
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.client_states import Accepted, Membership, Round
from ccesa.protocol.masking import check_enough, check_hidden, opened, still_there


@dataclass(frozen=True, kw_only=True)
class AcceptedAmong(Accepted):
    """After *accept* the roster is still what V2 is held against."""

    v1: Flags
    root: bytes
    #: Of the whole neighbourhood, whether they have shared or not.
    members: Ids

    @classmethod
    def of(cls, state: Rostered, **opened: object) -> "AcceptedAmong":
        """Keep of the step before what later ones need."""
        return cls(**opened, v1=state.v1, root=state.root, members=state.near.members)  # type: ignore[arg-type]


def answer(
    round: Round[Membership], state: Rostered, request: m.AcceptRequest
) -> tuple[AcceptedAmong, m.AcceptReply]:
    """Take hold of the shares of everyone who has shared, by the server's account."""
    live = state.near.among(still_there(round, request.dropped, state.near))
    check_enough(live, state.threshold)
    check_hidden(live)
    accepted = AcceptedAmong.of(state, **opened(round, state, live, request))
    return accepted, accept_reply(round, state, accepted)
