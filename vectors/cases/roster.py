"""roster.json: sets, trees with their proofs, committed rosters, and every text that is signed."""

import numpy as np

from cases.common import Case, configurations, sample
from cases.identities import identity
from ccesa.crypto import merkle
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts

DESCRIPTION = (
    "Sets of clients as bitmaps. Trees over 32-byte leaves: the top, and proofs that the leaves at some "
    "places are in it; a proof under bad_proofs is refused (WrongProof) or leads to another top. Committed "
    "rosters: leaf of each member, top, root and graph seed. Signed texts: build the text from the other "
    "values of its case, compare its bytes and the signature."
)
CONTEXT = configurations()["active"].context


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "sets": [_set(clients, *members) for clients, members in _sets()],
        "bad_sets": _bad_sets(),
        "trees": [_tree(size, places) for size, places in _trees().items()],
        "bad_proofs": _bad_proofs(),
        "rosters": [_roster(*case) for case in _rosters().items()],
        "signed": _signed(),
    }


def _sets() -> list[tuple[int, tuple[int, ...]]]:
    return [
        (3, ()),
        (3, (0, 1, 2)),
        (8, (0,)),
        (8, (7,)),
        (9, (8,)),
        (20, (1, 2, 9, 16, 19)),
        (64, tuple(range(0, 64, 3))),
    ]


def pack(clients: int, members: tuple[int, ...]) -> bytes:
    flags = np.zeros(clients, bool)
    flags[list(members)] = True
    return m.pack_set(flags)


def _set(clients: int, *members: int) -> Case:
    return {
        "name": f"{len(members)} of {clients}, last {members[-1] if members else 'none'}",
        "clients": clients,
        "members": list(members),
        "data": pack(clients, members),
    }


def _bad_sets() -> list[Case]:
    wrong = {
        "a byte too few": (20, b"\x01\x01"),
        "a byte too many": (20, b"\x01\x01\x01\x00"),
        "nothing": (3, b""),
        "the first client beyond the last": (20, b"\x01\x01\x10"),
        "the last bit": (9, b"\x00\x80"),
    }
    return [
        {"reason": reason, "clients": clients, "data": data, "error": "MalformedMessage"}
        for reason, (clients, data) in wrong.items()
    ]


def _trees() -> dict[int, list[list[int]]]:
    return {
        1: [[0]],
        2: [[0], [1], [0, 1]],
        3: [[0], [2], [0, 2], [0, 1, 2]],
        5: [[4], [0, 4], [1, 2], [3, 4]],
        6: [[5], [1, 4, 5], [0, 2, 4]],
        8: [[0], [0, 7], [2, 3, 4, 5]],
        11: [[10], [8, 10], [0, 3, 5, 9], [1, 2, 7, 8, 9, 10]],
    }


def _leaves(size: int) -> list[bytes]:
    return [sample(f"leaf {place} of {size}") for place in range(size)]


def _tree(size: int, all_places: list[list[int]]) -> Case:
    leaves = _leaves(size)
    tree = merkle.levels(leaves)
    return {
        "name": f"{size} leaves",
        "leaves": leaves,
        "top": tree[-1].tobytes(),
        "proofs": [{"places": places, "proof": merkle.prove(tree, np.array(places))} for places in all_places],
    }


def _bad_proofs() -> list[Case]:
    size, places = 11, [0, 3, 5, 9]
    leaves = _leaves(size)
    tree = merkle.levels(leaves)
    good, shown = merkle.prove(tree, np.array(places)), [leaves[place] for place in places]
    swapped = [shown[1], shown[0], *shown[2:]]
    wrong = {
        "a byte too few": (size, places, shown, good[:-1]),
        "a hash too few": (size, places, shown, good[:-32]),
        "a hash too many": (size, places, shown, good + bytes(32)),
        "nothing": (size, places, shown, b""),
        "one bit of the first hash": (size, places, shown, bytes([good[0] ^ 1]) + good[1:]),
        "two hashes swapped": (size, places, shown, good[32:64] + good[:32] + good[64:]),
        "two leaves swapped": (size, places, swapped, good),
        "another place": (size, [0, 3, 4, 9], shown, good),
        "one leaf fewer in the tree": (size - 1, places, shown, good),
        "a node as a leaf of a smaller tree": (6, [0], [tree[1][0].tobytes()], b""),
    }
    return [
        {"reason": reason, "size": n, "places": at, "leaves": some, "proof": proof, "top": tree[-1].tobytes()}
        for reason, (n, at, some, proof) in wrong.items()
    ]


def _rosters() -> dict[str, tuple[int, ...]]:
    return {
        "three of three": (0, 1, 2),
        "five of twenty": (1, 2, 9, 16, 19),
        "the same keys, other members": (1, 2, 9, 16, 18),
    }


def _keys(place: int) -> bytes:
    return sample(f"sealing key {place}") + sample(f"mask key {place}")


def _roster(name: str, members: tuple[int, ...]) -> Case:
    clients = 3 if len(members) == 3 else 20
    leaves = [signed_texts.leaf(CONTEXT, client, _keys(place)) for place, client in enumerate(members)]
    v1, top = pack(clients, members), merkle.levels(leaves)[-1].tobytes()
    root = signed_texts.root(CONTEXT, v1, top)
    return {
        "name": name,
        "context": CONTEXT,
        "clients": clients,
        "members": [
            {"client": client, "keys": _keys(place), "leaf": leaves[place]} for place, client in enumerate(members)
        ],
        "v1": v1,
        "top": top,
        "root": root,
        "seed": signed_texts.seed(CONTEXT, root),
    }


def _signed() -> list[Case]:
    one, root = identity("0"), sample("root")
    v2, v3 = pack(20, (1, 2, 9, 16)), pack(20, (1, 2, 16))
    texts: dict[str, tuple[Case, bytes]] = {
        f"bundle of client {client}": (
            {"kind": "bundle", "client": client, "keys": _keys(client)},
            signed_texts.bundle_text(CONTEXT, client, _keys(client)),
        )
        for client in (0, 7, 2**32 - 2)
    }
    task, vector = sample("task"), sample("digest of a masked vector")
    worked_on: Case = {"root": root, "v2": v2, "task": task}
    given = (CONTEXT, root, v2, task)
    texts["masking among V2"] = {"kind": "masking", **worked_on}, signed_texts.masking_text(*given)
    texts["confirmed V2 and V3"] = (
        {"kind": "confirmed", **worked_on, "v3": v3},
        signed_texts.confirmed_text(*given, v3),
    )
    texts["receipt"] = ({"kind": "receipt", **worked_on, "digest": vector}, signed_texts.receipt_text(*given, vector))
    return [
        {"name": name, "context": CONTEXT, **values, "seed": one.seed, "text": text, "signature": one.sign(text)}
        for name, (values, text) in texts.items()
    ]
