"""Colluding clients part the survivors, and a sum opens with less noise than is counted on. S29.

The server follows the protocol and opens no sum over fewer than S survivors, of whom at most C collude: the
noise of S - C honest clients is counted on. Without the step *accept* the colluders seal garbage for all
honest clients around an arc of the circle. These complain and are out; a colluder on either side still joins
the rest by masks that it knows. So the server sees one sum, and the arc opens by itself.
"""

from collections.abc import Collection

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.client_cut import Garbler
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.stage import Stage, names, opened
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Harary
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.words import Vector

CLIENTS, DEGREE, SURVIVORS, DIMENSION = 60, 24, 36, 1024
COLLUDERS = frozenset(range(50, 60))
HONEST = SURVIVORS - len(COLLUDERS)
DEMAND = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=1, norm=1.0)


def missing_noise(defended: bool, tell: Tell) -> Outcome:
    """Ten of sixty collude; rounds have the step accept, or not."""
    noise = choose_mechanism(DEMAND, clients=CLIENTS, honest=HONEST, dimension=DIMENSION)
    config = RoundConfig(
        clients=CLIENTS,
        length=noise.length,
        bits=64,
        graph=Harary(degree=DEGREE),
        min_survivors=SURVIVORS,
        accept=defended,
    )
    stage, garblers = _stage(config, noise, tell)
    stage.step()
    stage.look_ahead()  # the server tells its friends the graph
    targets = around_an_arc(stage.overheard, COLLUDERS, DEGREE)
    tell(f"{names(COLLUDERS)} seal garbage for {names(targets)}: all honest ones around an arc")
    for garbler in garblers.values():
        garbler.targets = targets
    stage.to_the_end()
    return _end(stage, noise)


def _stage(config: RoundConfig, noise: Mechanism, tell: Tell) -> tuple[Stage, dict[int, Garbler]]:
    """Everyone has a vector of zeros, so that what a sum has is noise."""
    quantizer = NoisyQuantizer.for_model([np.zeros(DIMENSION)], noise)
    zeros = [np.zeros(DIMENSION)]
    vectors = {i: quantizer.encode(zeros, config.context).vector for i in range(CLIENTS)}
    garblers = {i: Garbler(config, i, vectors[i]) for i in COLLUDERS}
    honest = {i: Client(config, i, vectors[i]) for i in range(CLIENTS) if i not in COLLUDERS}
    return Stage(Server(config), {**honest, **garblers}, vectors, tell), garblers


def around_an_arc(seen: Eavesdropper, colluders: Collection[int], degree: int) -> set[int]:
    """Return the honest clients around an arc of degree / 2 + 1, in which each has just enough holders.

    What two neighbours have in common is smallest if half a neighbourhood lies between them, and is that arc.
    A colluder among those around it keeps the survivors' masks in one piece; others must reach the rest.
    """
    near = {client: {client, *one.neighbours} for client, one in seen.seen.items()}
    found = []
    for one, other in ((i, j) for i in near for j in near[i] if i < j):
        arc = near[one] & near[other]
        around = set().union(*(near[i] for i in arc)) - arc
        targets = around.difference(colluders)
        if len(arc) == degree // 2 + 1 and targets != around and _reachable(targets, near, colluders):
            found.append((len(arc.difference(colluders)), sorted(targets)))
    if not found:
        raise StillHidden("no arc of this round can be parted; run the attack again")
    return set(min(found)[1])


def _reachable(targets: set[int], near: dict[int, set[int]], colluders: Collection[int]) -> bool:
    return all(near[client].intersection(colluders) for client in targets)


def honest_sums(stage: Stage, colluders: Collection[int]) -> dict[frozenset[int], Vector]:
    """Return the smallest sums of honest clients that can be opened, by who is in them."""
    return {group: found for group, found in stage.overheard.partial_sums().items() if not group.issubset(colluders)}


def _end(stage: Stage, noise: Mechanism) -> Outcome:
    sums = honest_sums(stage, COLLUDERS)
    if not sums:
        return Outcome(succeeded=False, summary=f"there is no sum: {stage.failure}")
    least = min(sums, key=len)
    variance = np.var(noise.fields.split(sums[least])[0][:DIMENSION]) / float(noise.s2)
    summary = (
        f"the smallest sum that opens has {len(least)} honest clients, and noise as of {variance:.1f}; "
        f"{HONEST} are counted on"
    )
    end = opened(sums[least], stage.expected(least), summary)
    if len(least) >= HONEST and end.succeeded:
        return Outcome(succeeded=False, summary=summary)
    return end


MISSING_NOISE = (
    Attack(
        number="S29",
        name="missing-noise",
        title="fewer honest clients in a sum than its noise is counted on",
        guard="curious",
        defence="the step accept: whoever seals garbage loses edges, and nobody honest is out",
        run=missing_noise,
    ),
)
