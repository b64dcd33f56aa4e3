"""Clients of the guard active, and what active_refused.json does not ask them."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from cases.active_refused import Scene, derived, introduction
from cases.active_rounds import ActivePlan, plan_of, plans_with_sum
from cases.common import Case, sample
from cases.parties import Party, changed, everywhere, remembering
from cases.refused_curious import wrong_numbers, wrong_tasks
from cases.rounds import seed, vector
from cases.signatures import neutral_signature
from ccesa.crypto import merkle
from ccesa.graphs import ErdosRenyi
from ccesa.graphs.thresholds import Fixed, Linear
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts


def active_entry(plan: ActivePlan, client: int) -> Case:
    return {
        "charter": str(plan.agreed),
        "identity": plan.identity(client).seed,
        "config": plan.config.encode(),
        "seed": seed(plan, client),
        "vector": vector(plan, client),
        "task": plan.task,
    }


def from_scene(name: str, scene: Scene, client: int = 0, **more: Any) -> Party:
    every = [scene.exchanges(step["step"])[client] for step in scene.played["steps"]]
    entry = {**active_entry(scene.plan, client), **more}
    return Party(name, entry, [(each["request"], each["reply"]) for each in every])


def active_parties() -> list[Party]:
    scene = Scene(plans_with_sum()[0])
    harary = from_scene("active, harary", scene)
    everywhere(harary)
    wrong_numbers(harary)
    wrong_tasks(harary, 2)
    _small_order(harary, scene)
    harary.tries(1, {"V1 without the client, whose leaf stands in another's place": _in_anothers_place(scene)})
    return [harary, _remembering(), _fixed(), _linear()]


def _remembering() -> Party:
    """Make a client of a charter that lets it release shares for a task twice."""
    plan = plan_of("remembering", "twice", 5, length=3, bits=8, task=sample("task"), attempts=4, releases=2)
    plan = replace(plan, config=msgspec.structs.replace(plan.config, number=7))
    party = from_scene("active, remembering, two releases", Scene(plan), 1, memory=[])
    remembering(party, 2, plan.config, attempts=4, releases=2)
    return party


def _small_order(party: Party, scene: Scene) -> None:
    """A neighbour signs so that it fits, with an R of small order."""
    shared, unmasking = party.request(1), party.request(4)
    near, v3 = scene.neighbours, scene.answered("mask")
    first, live = near[0], [j for j in near if j in v3]
    text = signed_texts.bundle_text(scene.context, first, shared.keys[:64])
    signed = neutral_signature(scene.plan.identity(first).seed, text) + shared.signatures[64:]
    party.tries(1, {"a neighbour's R of small order, in step 0": changed(shared, signatures=signed)})
    what = (scene.context, shared.root, scene.pack(scene.answered("share")), scene.plan.task)
    confirmed = signed_texts.confirmed_text(*what, scene.pack(v3))
    masking = signed_texts.masking_text(*what)
    place = unmasking.confirmed.index(1)
    for flag, text in ((1, confirmed), (0, masking)):
        flags = bytes([*unmasking.confirmed[:place], flag, *unmasking.confirmed[place + 1 :]])
        shown = neutral_signature(scene.plan.identity(live[place]).seed, text)
        signatures = unmasking.signatures[: 64 * place] + shown + unmasking.signatures[64 * place + 64 :]
        said = "confirmation" if flag else "signature on V2"
        party.tries(
            4,
            {
                f"a neighbour's R of small order, in its {said}": changed(
                    unmasking, confirmed=flags, signatures=signatures
                )
            },
        )


def _in_anothers_place(scene: Scene) -> bytes:
    """Commit to client 0's leaf in the first place of a V1 that has everybody but client 0."""
    ids, bundles, context = sorted(scene.bundles)[1:], scene.bundles, scene.context
    others = [signed_texts.leaf(context, i, bundles[i][0]) for i in ids[1:]]
    tree = merkle.levels([signed_texts.leaf(context, 0, bundles[0][0]), *others])
    v1 = scene.pack(ids)
    root = signed_texts.root(context, v1, tree[-1].tobytes())
    nodes = scene.plan.config.graph.neighbours(signed_texts.seed(context, root), np.array(ids), 0)
    near = [ids[node] for node in nodes.tolist()]
    return m.RosterRequest(
        context=context,
        client=0,
        v1=v1,
        root=root,
        keys=b"".join(bundles[j][0] for j in near),
        signatures=b"".join(bundles[j][1] for j in near),
        proof=merkle.prove(tree, np.array(sorted([0, *nodes.tolist()]))),
    ).encode()


def _fixed() -> Party:
    """A fixed threshold where degrees vary, and more survivors than the least roster."""
    plan = plan_of(
        "erdos-renyi, fixed threshold",
        "fixed",
        10,
        length=2,
        bits=8,
        graph=ErdosRenyi(p=0.5),
        threshold=Fixed(t=3),
        least_roster=3,
        min_survivors=5,
    )
    party = _advertised("active, erdos-renyi, fixed threshold", plan)
    party.tries(
        1,
        {
            **{f"{degree} neighbours": _with_degree(plan, degree, 5) for degree in (2, 3, 4, 5)},
            "a roster below min_survivors": _with_degree(plan, 3, 4, 4),
        },
    )
    return party


def _linear() -> Party:
    """Thresholds that count neighbours only, without the client itself."""
    plan = plan_of(
        "erdos-renyi, linear threshold, few",
        "linear",
        9,
        length=2,
        bits=8,
        graph=ErdosRenyi(p=0.5),
        threshold=Linear(slope=0, base=2),
        least_roster=3,
        min_survivors=3,
    )
    party = _advertised("active, erdos-renyi, linear threshold", plan)
    party.tries(1, {f"{degree} neighbours": _with_degree(plan, degree, 3) for degree in (0, 1, 2)})
    return party


def _advertised(name: str, plan: ActivePlan) -> Party:
    first = Scene(plan).exchanges("advertise")[0]
    return Party(name, active_entry(plan, 0), [(first["request"], first["reply"])])


def _with_degree(plan: ActivePlan, degree: int, least: int, most: int | None = None) -> bytes:
    """Commit to the first roster, of so many members, that gives client 0 so many neighbours."""
    bundles = Scene(plan).bundles
    for size in range(least, (most or len(bundles)) + 1):
        for others in combinations(sorted(bundles)[1:], size - 1):
            few = {i: bundles[i] for i in (0, *others)}
            if len(derived(plan, few, 0)) == degree:
                return introduction(plan, few, 0)
    raise LookupError(f"no roster gives {degree} neighbours")
