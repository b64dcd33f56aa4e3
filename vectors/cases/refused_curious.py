"""Clients of the guard curious, and what they are asked that they must not answer."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from cases import rounds
from cases.common import Stream, sample
from cases.parties import Party, changed, everywhere, flipped, packed, remembering
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
        "task": plan.task,
        **more,
    }
    every = [each for step in played["steps"] for each in step["exchanges"] if each["client"] == client]
    return Party(name, entry, [(each["request"], each["reply"]) for each in every])


def curious_parties() -> list[Party]:
    plans = rounds.plans_with_sum()
    harary, complete = from_round("harary", plans[0], 3), from_round("mask degree", plans[4], 0)
    everywhere(harary)
    wrong_numbers(harary)
    wrong_tasks(harary, 2)
    _wrong_neighbours(harary)
    _wrong_keys(harary)
    wrong_texts(harary, plans[0], near_of(harary), keys_of(harary))
    wrong_drops(harary, 3, plans[0].config.clients)
    at_the_end(harary)
    unmasked(complete)
    complaining = from_round("complaining", plans[3], 0)
    first, last = complaining.history[0][0], complaining.history[-1][0]
    complaining.tries(
        3,
        {
            "a complaint is answered from memory": last,
            "after a complaint another request": [changed(complaining.request(2), sealed=b""), last, first],
        },
    )
    complaining.tries(
        2,
        {
            "a complaint comes before another task": changed(complaining.request(2), task=bytes(32)),
            "a task of 31 bytes comes before a complaint": changed(complaining.request(2), task=bytes(31)),
        },
    )
    return [harary, complete, complaining, *limited_parties(), *_counting(plans[0])]


def wrong_numbers(party: Party) -> None:
    """Invite to another round of the series, in the context of this one."""
    good = party.request(0)
    wrong = {"the next one": b"\x01\x00\x00\x00", "of 3 bytes": bytes(3), "of 5 bytes": bytes(5), "empty": b""}
    party.tries(0, {f"number {reason}": changed(good, number=number) for reason, number in wrong.items()})


def wrong_tasks(party: Party, place: int) -> None:
    """Ask for a vector for something else than what the client works on."""
    good = party.request(place)
    wrong = {
        "another task": flipped(good.task),
        "no task": bytes(32),
        "a task of 31 bytes": good.task[:-1],
        "a task of 33 bytes": good.task + b"\x00",
        "an empty task": b"",
    }
    party.tries(place, {f"step {place}: {reason}": changed(good, task=task) for reason, task in wrong.items()})


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
            "keys of one neighbour too many": changed(good, keys=good.keys + sample("more keys", 63) + b"\x00"),
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
            "a neighbour with the client's sealing key": with_key(0, own.keys[:32]),
            "a neighbour with the client's mask key": with_key(5, own.keys[32:]),
            "a neighbour with one key in both places": with_key(1, bundles[0]),
            "two neighbours with one key": with_key(7, bundles[2]),
        },
    )


_EIGHT = (
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
)


def near_of(party: Party) -> dict[int, bool]:
    """Return the neighbours of a party of the guard curious, and whether masks run with each."""
    told = party.request(1)
    ids = np.frombuffer(told.neighbours, "<u4").tolist()
    return dict(zip(ids, map(bool, told.masked), strict=True))


def keys_of(party: Party) -> dict[int, bytes]:
    """Return the public keys of its neighbours."""
    told = party.request(1)
    return {j: told.keys[64 * place : 64 * place + 64] for place, j in enumerate(near_of(party))}


def wrong_texts(party: Party, plan: rounds.Plan, flags: dict[int, bool], keys: dict[int, bytes]) -> None:
    """Show what the neighbours sealed, with something wrong in it: in step 2, or in accept."""
    good, clients = party.request(2), plan.config.clients
    me, near = good.client, list(flags)
    gone = np.frombuffer(good.dropped, "<u4").tolist()
    live = [j for j in near if j not in gone]
    stranger = next(j for j in range(clients) if j not in (*near, me))
    threshold = (len(near) + 1) // 2 + 1
    best = sorted(live, key=lambda j: not flags[j])  # those with masks first
    texts = [good.sealed[place : place + 80] for place in range(0, len(good.sealed), 80)]
    promised = [good.commitments[place : place + 32] for place in range(0, len(good.commitments), 32)]

    def dropping(*ids: int, **others: bytes) -> bytes:
        left = [place for place, j in enumerate(live) if j not in ids]
        shown = {
            "commitments": b"".join(promised[place] for place in left),
            "sealed": b"".join(texts[place] for place in left),
        }
        return changed(good, **{"dropped": packed(*ids), **shown, **others})

    ends = (live[1], keys[live[1]], flags[live[1]], promised[1])
    outside = _sealed_outside(party, plan, *ends)
    party.tries(
        2,
        {
            "dropped a byte too short": changed(good, dropped=(good.dropped or bytes(4))[:-1]),
            "dropped in another order": dropping(live[1], live[0]),
            "dropped twice": dropping(live[0], live[0]),
            "dropped beyond the last client": dropping(*gone, clients),
            "dropped that is no neighbour": dropping(*sorted([*gone, stranger])),
            "dropped with the client itself": dropping(*sorted([*gone, me])),
            "one more dropped, right in itself": dropping(*sorted([*gone, live[0]])),
            "as many left as the threshold needs": dropping(*(j for j in near if j not in best[: threshold - 1])),
            "one fewer left than the threshold needs": dropping(*(j for j in near if j not in best[: threshold - 2])),
            "all dropped": dropping(*near),
            "texts a byte too short": changed(good, sealed=good.sealed[:-1]),
            "texts of one neighbour too few": changed(good, sealed=good.sealed[:-80]),
            "texts of one neighbour too many": changed(good, sealed=good.sealed + bytes(80)),
            "commitments a byte too short": changed(good, commitments=good.commitments[:-1]),
            "a commitment too few": changed(good, commitments=good.commitments[:-32]),
            "a commitment too many": changed(good, commitments=good.commitments + bytes(32)),
            "a commitment with one wrong bit": changed(good, commitments=flipped(good.commitments)),
            "two commitments swapped": changed(good, commitments=b"".join([promised[1], promised[0], *promised[2:]])),
            "a text with one wrong bit, and once more, and the right one": [
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


def _sealed_outside(
    party: Party, plan: rounds.Plan, sender: int, theirs: bytes, masked: bool, commitment: bytes
) -> bytes:
    """Seal what no honest neighbour seals: a row whose last element is 65521."""
    random = Stream(rounds.seed(plan, sender))
    drawn = b""
    while len(drawn) < 32:  # the secret of its mask key pair comes first
        word = random(2)
        drawn += word if int.from_bytes(word, "little") < 65521 else b""
    private = primitives.private_key(random(32))
    own = party.reply(0)
    agreed = primitives.agree(private, primitives.load_public_key(own.keys[:32]))
    agreement, shares = keys.AGREEMENTS[keys.DEFAULT], bytes(62) + b"\xf1\xff"
    sealing = agreement.sealing(agreed, party.context, sender, own.client)
    ends = keys.Ends(sender, own.client, theirs, own.keys, masked, commitment)
    return agreement.seal(sealing, keys.Encapsulated(b"", b""), keys.Content(shares, b""), party.context, ends)


def wrong_drops(party: Party, place: int, clients: int) -> None:
    """List others as dropped than can have: in step 3, and after accept in step 2."""
    good, flags = party.request(place), near_of(party)
    gone = [j for k in range(2, place) for j in np.frombuffer(party.request(k).dropped, "<u4").tolist()]
    live, me = [j for j in flags if j not in gone], good.client
    best = sorted(live, key=lambda j: not flags[j])  # those with masks first
    threshold = (len(flags) + 1) // 2 + 1
    stranger = next(j for j in range(clients) if j not in (*flags, me))

    def dropping(*ids: int) -> bytes:
        return changed(good, dropped=packed(*ids))

    cases: dict[str, bytes] = {
        "dropped a byte too short": changed(good, dropped=packed(live[0])[:-1]),
        "dropped in another order": dropping(live[1], live[0]),
        "dropped twice": dropping(live[0], live[0]),
        "dropped beyond the last client": dropping(clients),
        "dropped that is no neighbour": dropping(stranger),
        "dropped that had left before": dropping(gone[0]),
        "dropped with the client itself": dropping(me),
        "others are left, right in itself": dropping(live[1]),
        "as many left as the threshold needs": dropping(*(j for j in live if j not in best[: threshold - 1])),
        "one fewer left than the threshold needs": dropping(*(j for j in live if j not in best[: threshold - 2])),
        "nobody is left": dropping(*live),
    }
    party.tries(place, {f"step {place}: {reason}": request for reason, request in cases.items()})


def at_the_end(party: Party) -> None:
    """Ask for shares in the words of the other guard, or once more."""
    place = len(party.history) - 1
    last, good = party.history[place][0], party.request(place)
    signed = m.SignedUnmaskRequest(context=party.context, client=good.client, confirmed=b"", signatures=b"").encode()
    other = changed(good, dropped=packed(list(near_of(party))[1]))
    party.tries(place, {"the request of the guard active, for shares": signed})
    party.tries(place + 1, {"done: another request": [last, other, last], "done: once more": last})


def unmasked(party: Party) -> None:
    """All that carry masks are gone, and enough holders are left: the vector would be a sum of its own."""
    shown, flags = party.request(2), near_of(party)
    masked = [j for j, flag in flags.items() if flag]
    texts = {j: shown.sealed[80 * place : 80 * place + 80] for place, j in enumerate(flags)}
    left = b"".join(text for j, text in texts.items() if j not in masked)
    promised = shown.commitments[: 32 * (len(flags) - len(masked))]
    none = changed(shown, dropped=packed(*masked), sealed=left, commitments=promised)
    party.tries(2, {"step 2: no mask is left": none})
    for place in range(3, len(party.history)):
        gone = changed(party.request(place), dropped=packed(*masked))
        party.tries(place, {f"step {place}: no mask is left": gone})


def _counting(plan: rounds.Plan) -> list[Party]:
    """Make clients that count what they contribute to the task of the first round."""
    plan = replace(plan, config=msgspec.structs.replace(plan.config, number=7))
    first = from_round("remembering", plan, 3, memory=[])
    remembering(first, 2, plan.config)
    return [first]
