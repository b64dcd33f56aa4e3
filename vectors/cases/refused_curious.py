"""Clients of the guard curious, and what they are asked that they must not answer."""

from typing import Any

import numpy as np

from cases import rounds
from cases.common import Stream, sample
from cases.parties import Party, changed, everywhere, flipped, packed
from cases.refused_limits import limited_parties
from ccesa.crypto import keys, primitives
from ccesa.protocol import messages as m


def from_round(name: str, plan: rounds.Plan, client: int, **more: Any) -> Party:
    played = rounds.play(plan)
    entry = {
        "config": plan.config.encode(),
        "client": client,
        "seed": rounds.seed(plan, client),
        "vector": rounds.vector(plan, client),
        **more,
    }
    every = [each for step in played["steps"] for each in step["exchanges"] if each["client"] == client]
    return Party(name, entry, [(each["request"], each["reply"]) for each in every])


def curious_parties() -> list[Party]:
    plans = rounds.plans_with_sum()
    harary, complete = from_round("harary", plans[0], 3), from_round("mask degree", plans[4], 0)
    everywhere(harary)
    _wrong_neighbours(harary)
    _wrong_keys(harary)
    _wrong_texts(harary, plans[0])
    _wrong_drops(harary)
    _unmasked(complete)
    complaining = from_round("complaining", plans[3], 0)
    first, last = complaining.history[0][0], complaining.history[-1][0]
    complaining.tries(
        3,
        {
            "a complaint is answered from memory": last,
            "after a complaint another request": [changed(complaining.request(2), sealed=b""), last, first],
        },
    )
    return [harary, complete, complaining, *limited_parties(), *_counting(plans[0])]


def _wrong_neighbours(party: Party) -> None:
    good = party.request(1)
    ids = np.frombuffer(good.neighbours, "<u4").tolist()
    flags = good.masked
    one = next(place for place, flag in enumerate(flags) if flag)
    other = next(place for place, flag in enumerate(flags) if flag and place > one)
    none = next(place for place, flag in enumerate(flags) if not flag)

    def told(*values: int, **others: bytes) -> bytes:
        return changed(good, neighbours=packed(*values), **others)

    def flagged(*pairs: tuple[int, int]) -> bytes:
        new = bytearray(flags)
        for place, flag in pairs:
            new[place] = flag
        return changed(good, masked=bytes(new))

    party.tries(
        1,
        {
            "neighbours a byte too short": changed(good, neighbours=good.neighbours[:-1]),
            "neighbours in another order": told(ids[1], ids[0], *ids[2:]),
            "a neighbour twice": told(ids[0], ids[0], *ids[2:]),
            "a neighbour beyond the last client": told(*ids[:-1], 10),
            "itself as a neighbour": told(*sorted([good.client, *ids[1:]])),
            "keys a byte too short": changed(good, keys=good.keys[:-1]),
            "keys of one neighbour too few": changed(good, keys=good.keys[:-64]),
            "keys of one neighbour too many": changed(
                good, keys=good.keys + sample("more keys", 63) + b"\x00"
            ),
            "a flag too few": changed(good, masked=flags[:-1]),
            "a flag too many": changed(good, masked=flags + b"\x00"),
            "a flag of 2, one fewer of 1": flagged((one, 2), (other, 0)),
            "one mask edge more than the configuration gives": flagged((none, 1)),
            "one mask edge fewer than the configuration gives": flagged((one, 0)),
            "the request of the guard active": m.RosterRequest(
                context=party.context,
                client=good.client,
                v1=b"\x0f\x00",
                root=bytes(32),
                keys=b"",
                signatures=b"",
                proof=b"",
            ).encode(),
        },
    )


def _wrong_keys(party: Party) -> None:
    good, own = party.request(1), party.reply(0)
    bundles = [good.keys[place : place + 32] for place in range(0, len(good.keys), 32)]
    low = [0, 1, 2**255 - 20, *(int.from_bytes(bytes.fromhex(text), "little") for text in _EIGHT)]
    bad = {
        **{f"low order, {k}": value for k, value in enumerate(low)},
        "not reduced, p": 2**255 - 19,
        "not reduced, p + 1": 2**255 - 18,
        "the top bit": 2**255 + 9,
    }

    def with_key(place: int, key: bytes) -> bytes:
        return changed(good, keys=b"".join([*bundles[:place], key, *bundles[place + 1 :]]))

    party.tries(
        1,
        {
            f"{kind} key: {reason}": with_key(place, value.to_bytes(32, "little"))
            for reason, value in bad.items()
            for kind, place in (("sealing", 2), ("mask", 3))
        }
        | {
            "a neighbour with the client's sealing key": with_key(0, own.sealing_key),
            "a neighbour with the client's mask key": with_key(5, own.mask_key),
            "a neighbour with one key in both places": with_key(1, bundles[0]),
            "two neighbours with one key": with_key(7, bundles[2]),
        },
    )


_EIGHT = (
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
)


def _wrong_texts(party: Party, plan: rounds.Plan) -> None:
    good, shared = party.request(2), party.request(1)
    me = good.client
    near = np.frombuffer(shared.neighbours, "<u4").tolist()
    gone = np.frombuffer(good.dropped, "<u4").tolist()
    live = [j for j in near if j not in gone]
    stranger = next(j for j in range(plan.config.clients) if j not in (*near, me))
    threshold = (len(near) + 1) // 2 + 1
    masked = [j for j, flag in zip(near, shared.masked, strict=True) if flag and j in live]
    texts = [good.sealed[place : place + 80] for place in range(0, len(good.sealed), 80)]

    def dropping(*ids: int, **others: bytes) -> bytes:
        left = [text for j, text in zip(live, texts, strict=True) if j not in ids]
        return changed(good, **{"dropped": packed(*ids), "sealed": b"".join(left), **others})

    outside = _sealed_outside(party, plan, live[1])
    party.tries(
        2,
        {
            "dropped a byte too short": changed(good, dropped=(good.dropped or bytes(4))[:-1]),
            "dropped in another order": dropping(live[1], live[0]),
            "dropped twice": changed(good, dropped=packed(live[0], live[0]), sealed=b"".join(texts[1:])),
            "dropped beyond the last client": dropping(*gone, 10, sealed=good.sealed),
            "dropped that is no neighbour": dropping(*sorted([*gone, stranger]), sealed=good.sealed),
            "dropped with the client itself": dropping(*sorted([*gone, me]), sealed=good.sealed),
            "one more dropped, right in itself": dropping(*sorted([*gone, live[0]])),
            "as many left as the threshold needs": dropping(
                *(j for j in near if j not in masked[: threshold - 1])
            ),
            "one fewer left than the threshold needs": dropping(
                *(j for j in near if j not in masked[: threshold - 2])
            ),
            "all dropped": dropping(*near),
            "texts a byte too short": changed(good, sealed=good.sealed[:-1]),
            "texts of one neighbour too few": changed(good, sealed=good.sealed[:-80]),
            "texts of one neighbour too many": changed(good, sealed=good.sealed + bytes(80)),
            "a text with one wrong bit: a complaint, and nothing more": [
                changed(good, sealed=flipped(good.sealed)),
                changed(good, sealed=flipped(good.sealed)),
                party.history[2][0],
                changed(good, sealed=flipped(good.sealed)),
            ],
            "a wrong tag": changed(good, sealed=flipped(good.sealed, 79)),
            "two texts swapped": changed(good, sealed=b"".join([texts[1], texts[0], *texts[2:]])),
            "a text that opens and holds an element outside the field": changed(
                good, sealed=b"".join([texts[0], outside, *texts[2:]])
            ),
        },
    )


def _sealed_outside(party: Party, plan: rounds.Plan, sender: int) -> bytes:
    """Seal what no honest neighbour seals: a row whose last element is 65521."""
    random = Stream(rounds.seed(plan, sender))
    drawn = b""
    while len(drawn) < 32:  # the secret of its mask key pair comes first
        word = random(2)
        drawn += word if int.from_bytes(word, "little") < 65521 else b""
    private = primitives.private_key(random(32))
    own = party.reply(0)
    told = party.request(1)
    place = np.frombuffer(told.neighbours, "<u4").tolist().index(sender)
    theirs = told.keys[64 * place : 64 * place + 64]
    agreed = primitives.agree(private, primitives.load_public_key(own.sealing_key))
    sealing = keys.sealing(agreed, party.context, sender, own.client)
    ends = keys.Ends(sender, own.client, theirs, own.sealing_key + own.mask_key, bool(told.masked[place]))
    return keys.seal_shares(sealing, bytes(62) + b"\xf1\xff", party.context, ends)


def _wrong_drops(party: Party) -> None:
    good, shared, masking = party.request(3), party.request(1), party.request(2)
    near = np.frombuffer(shared.neighbours, "<u4").tolist()
    never = np.frombuffer(masking.dropped, "<u4").tolist()
    live, me = [j for j in near if j not in never], good.client
    masked = [j for j, flag in zip(near, shared.masked, strict=True) if flag and j in live]
    threshold = (len(near) + 1) // 2 + 1
    stranger = next(j for j in range(10) if j not in (*near, me))

    def dropping(*ids: int) -> bytes:
        return changed(good, dropped=packed(*ids))

    party.tries(
        3,
        {
            "dropped a byte too short": changed(good, dropped=packed(live[0])[:-1]),
            "dropped in another order": dropping(live[1], live[0]),
            "dropped twice": dropping(live[0], live[0]),
            "dropped beyond the last client": dropping(10),
            "dropped that is no neighbour": dropping(stranger),
            "dropped that has never shared": dropping(*never),
            "dropped with the client itself": dropping(me),
            "other survivors, right in itself": dropping(live[1]),
            "as many survivors as the threshold needs": dropping(
                *(j for j in live if j not in masked[: threshold - 1])
            ),
            "one survivor fewer than the threshold needs": dropping(
                *(j for j in live if j not in masked[: threshold - 2])
            ),
            "nobody survives": dropping(*live),
            "the request of the guard active": m.SignedUnmaskRequest(
                context=party.context, client=me, confirmed=b"", signatures=b""
            ).encode(),
        },
    )
    last = party.history[3][0]
    party.tries(4, {"done: another request": [last, dropping(live[1]), last], "done: once more": last})


def _unmasked(party: Party) -> None:
    """All that carry masks are gone, and enough holders are left: the vector would be a sum of its own."""
    shared, masking = party.request(1), party.request(2)
    near = np.frombuffer(shared.neighbours, "<u4").tolist()
    masked = [j for j, flag in zip(near, shared.masked, strict=True) if flag]
    texts = {j: masking.sealed[80 * place : 80 * place + 80] for place, j in enumerate(near)}
    left = b"".join(text for j, text in texts.items() if j not in masked)
    party.tries(2, {"no mask is left": changed(masking, dropped=packed(*masked), sealed=left)})
    party.tries(3, {"no survivor with a mask is left": changed(party.request(3), dropped=packed(*masked))})


def _counting(plan: rounds.Plan) -> list[Party]:
    """Make clients that count what they contribute to the task of the first round."""
    first = from_round("counting, the second vector", plan, 3, spent=1)
    request = first.history[2][0]
    first.tries(0, {"step 0: spent, and given back": [(first.history[0][0], 2), (first.history[0][0], 1)]})
    first.tries(2, {"step 2: spent, and given back": [(request, 2), request, (request, 1)]})
    first.tries(3, {"step 3: spent by now, which no longer matters": [(first.history[3][0], 2)]})
    second = Party("counting, no third vector", {**first.entry, "spent": 2}, [])
    second.tries(0, {"step 0: spent": [first.history[0][0], first.history[0][0]]})
    return [first, second]
