"""An agreement is how two clients come to a common secret. One record per agreement has its sizes."""

from typing import NamedTuple

from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, TAG_BYTES
from ccesa.crypto.shamir import SHARE_BYTES


class Agreement(NamedTuple):
    """An agreement says how large what clients show each other is."""

    #: All public keys of a client, as they travel: that of c_i, that of s_i.
    bundle_bytes: int
    #: What a client seals for a neighbour: a pair of shares.
    text_bytes: int


#: The one list of them: the names that configurations, charters and the command line take.
AGREEMENTS = {
    "x25519": Agreement(bundle_bytes=2 * PUBLIC_KEY_BYTES, text_bytes=2 * SHARE_BYTES + TAG_BYTES),
}
