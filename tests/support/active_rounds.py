"""Rounds under the guard ``active``, halted where a test wants to look or to meddle."""

import numpy as np

from ccesa.crypto import merkle
from ccesa.graphs import Harary
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import ActiveClient
from rounds import Play, configure_active, read, steps_under

STEP_NAMES = [step.name for step in steps_under("active")]
GRAPH = Harary(degree=6)
EVERYONE = set(range(12))


def played(step: str, gone=None, **options) -> Play:
    options = {"graph": GRAPH, "min_survivors": 5, **options}
    return Play(configure_active(12, **options)).until(step, gone or {})


def secrets_of(value: object) -> list[bytes]:
    """Private keys, secrets and shares, wherever they lie in a state."""
    state = value._state if isinstance(value, ActiveClient) else value
    found = []
    for name, part in vars(state).items():
        if name in ("self_secret", "own_share"):
            found.append(part)
        elif name in ("mask_private", "sealing_private"):
            found.append(part.private_bytes_raw())
        elif name == "mask_secret":
            found.append(bytes(np.asarray(part)))
        elif name == "shares":
            found += part
        elif name == "sealings":
            found += part.values()
    return found


def flipped(data: bytes, place: int = 0) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def packed(members, clients: int = 12) -> bytes:
    return m.pack_set(np.isin(np.arange(clients), list(members)))


def bundles_of(play: Play) -> dict[int, tuple[bytes, bytes]]:
    bundles = {i: read(reply) for i, reply in play.said["advertise"].items()}
    return {i: (one.keys, one.signature) for i, one in bundles.items()}


def tree_of(play: Play, bundles: dict[int, tuple[bytes, bytes]]) -> list[np.ndarray]:
    """The tree that a roster of these commits to."""
    return merkle.levels([signed_texts.leaf(play.config.context, i, pair) for i, (pair, _) in sorted(bundles.items())])


def introduction(play: Play, bundles: dict[int, tuple[bytes, bytes]], client: int) -> bytes:
    """The request of step 1 that is right for these bundles."""
    context, ids = play.config.context, sorted(bundles)
    tree = tree_of(play, bundles)
    v1 = packed(ids, play.config.clients)
    root = signed_texts.root(context, v1, tree[-1].tobytes())
    node = ids.index(client)
    nodes = play.config.graph.neighbours(signed_texts.seed(context, root), np.array(ids), node)
    near = [ids[other] for other in nodes.tolist()]
    return m.RosterRequest(
        context=context,
        client=client,
        v1=v1,
        root=root,
        keys=b"".join(bundles[j][0] for j in near),
        signatures=b"".join(bundles[j][1] for j in near),
        proof=merkle.prove(tree, np.sort(np.append(nodes, node))),
    ).encode()
