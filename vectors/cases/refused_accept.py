"""Clients in rounds with *accept*, and what they are asked that they must not answer."""

import numpy as np

from cases import rounds
from cases.accept_rounds import active_plans, plans
from cases.active_refused import Scene, derived
from cases.common import sample
from cases.parties import Party, changed, everywhere, packed, remembering
from cases.refused_active import from_scene
from cases.refused_curious import (
    at_the_end,
    from_round,
    keys_of,
    near_of,
    unmasked,
    wrong_drops,
    wrong_numbers,
    wrong_tasks,
    wrong_texts,
)
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete
from ccesa.protocol import messages as m

#: One that stays to the end, of whose neighbours one drops in share and another in accept.
VICTIM = 9


def accepting_parties() -> list[Party]:
    return [*_curious_parties(), *_active_parties()]


def _curious_parties() -> list[Party]:
    first, garbled = plans()[:2]
    harary = from_round("accept", first, 5)
    everywhere(harary)
    wrong_numbers(harary)
    wrong_texts(harary, first, near_of(harary), keys_of(harary))
    for place in (3, 4):
        wrong_drops(harary, place, first.config.clients)
    wrong_tasks(harary, 3)
    _another_form(harary)
    at_the_end(harary)
    accusing = from_round("accept, accusing", garbled, 0)
    accusing.tries(3, {"V2 with the accused neighbour": changed(accusing.request(3), dropped=b"")})
    accusing.tries(4, {"the accused as dropped once more": changed(accusing.request(4), dropped=packed(2))})
    config = RoundConfig(
        series_id=sample("thin"), clients=6, length=2, bits=8, graph=Complete(mask_degree=2), accept=True
    )
    thin = from_round("accept, mask degree", rounds.Plan("complete, accept, mask degree", config), 0)
    unmasked(thin)
    counting = from_round("accept, remembering", first, 5, memory=[])
    remembering(counting, 3, first.config)
    return [harary, accusing, thin, counting]


def _another_form(party: Party) -> None:
    """Ask for the vector in the words of a round without accept."""
    shown, good = party.request(2), party.request(3)
    at_once = m.MaskAtOnceRequest(
        context=party.context,
        client=good.client,
        dropped=shown.dropped,
        commitments=shown.commitments,
        sealed=shown.sealed,
        task=good.task,
    ).encode()
    for place in (2, 3):
        party.tries(place, {f"step {place}: the request of a round without accept": at_once})


def _active_parties() -> list[Party]:
    scene, accusing = (Scene(plan) for plan in active_plans())
    harary = from_scene("active, accept", scene, VICTIM)
    everywhere(harary)
    wrong_numbers(harary)
    wrong_tasks(harary, 3)
    near = derived(scene.plan, scene.bundles, VICTIM)
    roster, flags = harary.request(1), dict.fromkeys(near, True)
    keys = {j: roster.keys[64 * place : 64 * place + 64] for place, j in enumerate(flags)}
    wrong_texts(harary, scene.plan, flags, keys)
    _wrong_v2(harary, scene, near)
    return [harary, _accusing(accusing)]


def _wrong_v2(party: Party, scene: Scene, near: list[int]) -> None:
    good = party.request(3)
    clients, v1 = scene.plan.config.clients, scene.answered("advertise")
    v2 = [i for i in range(clients) if good.v2[i // 8] >> i % 8 & 1]
    live = [j for j in near if j in v2]
    threshold = (len(near) + 1) // 2 + 1
    absent = next(i for i in range(clients) if i not in v1)
    unshared = next(j for j in near if j in np.frombuffer(party.request(2).dropped, "<u4").tolist())
    shown = next(j for j in near if j not in (*v2, unshared))

    def among(*members: int) -> bytes:
        return changed(good, v2=scene.pack(sorted(members)))

    cases = {
        "V2 not in V1": among(*v2, absent),
        "V2 without the client itself": among(*(i for i in v2 if i != good.client)),
        "V2 a byte too short": changed(good, v2=good.v2[:-1]),
        "V2 a byte too long": changed(good, v2=good.v2 + b"\x00"),
        "V2 with a client that was never enrolled": changed(good, v2=good.v2[:-1] + b"\x80"),
        "V2 with a neighbour whose text was not shown": among(*v2, unshared),
        "V2 with a neighbour that did not answer, whose text was shown": among(*v2, shown),
        "V2 with as many neighbours as the threshold needs": among(*(i for i in v2 if i not in live[threshold - 1 :])),
        "V2 with fewer neighbours than the threshold needs": among(*(i for i in v2 if i not in live[threshold - 2 :])),
        "the request of a round without accept": m.MaskAmongAtOnceRequest(
            context=party.context,
            client=good.client,
            v2=good.v2,
            commitments=party.request(2).commitments,
            sealed=party.request(2).sealed,
            task=good.task,
        ).encode(),
        "the request of the guard curious": m.MaskRequest(
            context=party.context, client=good.client, dropped=b"", task=good.task
        ).encode(),
    }
    party.tries(3, dict(cases))


def _accusing(scene: Scene) -> Party:
    """Client 1 accuses client 5, and is shown a V2 with it."""
    party = from_scene("active, accept, accusing", scene, 1)
    good = party.request(3)
    v2 = [*scene.answered("mask"), 5]
    party.tries(3, {"V2 with the accused neighbour": changed(good, v2=scene.pack(sorted(v2)))})
    return party
