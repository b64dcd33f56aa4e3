"""Requests of the active guard as a lying server writes them, from what it has of the clients' bytes."""

from typing import Any

import numpy as np

from attacks.eavesdropper import Eavesdropper
from ccesa.crypto import merkle
from ccesa.crypto.keys import AGREEMENTS, COMMITMENT_BYTES
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.graphs.assignment import Flags
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts


def introduce(seen: Eavesdropper, client: int, v1: Flags, root: bytes = b"") -> bytes:
    """Opens step 1 with this V1, under its own root or under another one that was fixed before."""
    ids = np.flatnonzero(v1)
    tree = merkle.levels([signed_texts.leaf(seen.context, j, seen[j].keys) for j in ids.tolist()])
    root = root or signed_texts.root(seen.context, m.pack_set(v1), tree[-1].tobytes())
    node = int(np.searchsorted(ids, client))
    near = seen.config.graph.neighbours(signed_texts.seed(seen.context, root), ids, node)
    return m.RosterRequest(
        **_head(seen, client),
        v1=m.pack_set(v1),
        root=root,
        keys=b"".join(seen[j].keys for j in ids[near].tolist()),
        signatures=b"".join(getattr(seen[j].bundle, "signature", b"") for j in ids[near].tolist()),
        proof=merkle.prove(tree, np.sort(np.append(near, node))),
    ).encode()


def mask_among(seen: Eavesdropper, client: int, v2: Flags) -> bytes:
    """Opens step 2 with this V2. Texts that nobody sealed for this client are left blank."""
    live = [j for j in seen[client].neighbours if v2[j]]
    blank = bytes(AGREEMENTS[seen.config.agreement].text_bytes)
    return m.MaskAmongAtOnceRequest(
        **_head(seen, client),
        v2=m.pack_set(v2),
        commitments=b"".join(seen[j].commitment or bytes(COMMITMENT_BYTES) for j in live),
        sealed=b"".join(seen[j].sealed.get(client, blank) for j in live),
        task=m.NO_TASK,
    ).encode()


def confirm(seen: Eavesdropper, client: int, v3: Flags) -> bytes:
    """Opens step 2c with this V3."""
    return m.ConfirmRequest(**_head(seen, client), v3=m.pack_set(v3)).encode()


def unmask(seen: Eavesdropper, client: int) -> bytes:
    """Opens step 3 with the best signatures there are for what this client was told."""
    own = seen[client]
    live = [j for j in seen.holding(client) if j != client and j not in own.dropped]
    told_the_same = [_agrees(seen, client, j) for j in live]
    signatures = [
        seen[j].confirmation if same else seen[j].masking_signature or bytes(SIGNATURE_BYTES)
        for j, same in zip(live, told_the_same, strict=True)
    ]
    return m.SignedUnmaskRequest(
        **_head(seen, client), confirmed=bytes(told_the_same), signatures=b"".join(signatures)
    ).encode()


def _agrees(seen: Eavesdropper, client: int, other: int) -> bool:
    """The other one confirmed, and was told the same."""
    own, its = seen[client], seen[other]
    return bool(its.confirmation) and (its.v2, its.v3) == (own.v2, own.v3)


def _head(seen: Eavesdropper, client: int) -> dict[str, Any]:
    return {"context": seen.context, "client": client}
