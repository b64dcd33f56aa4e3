"""What an eavesdropper sees of a client's model: its masked vector in a real round, read as floats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccesa.config import RoundConfig
from ccesa.fields import WORD_BITS, Fields
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.plan import paper
from ccesa.protocol import messages as m
from ccesa.quantize import Quantizer
from ccesa.simulate import simulate, usual_plan
from ccesa.thresholds import Fixed
from ccesa.words import Vector, from_bytes
from experiments.schemes import Scheme

VICTIM = 0
#: p* exceeds 1 for so few clients, and the paper does not say which p it used.
CONNECTION = 0.7
#: In a sparse graph of few clients the victim may be left out of a round; then the next one is listened to.
_ROUNDS = 50

Row = NDArray[np.float32]


def all_schemes(clients: int) -> list[Scheme]:
    made, t = usual_plan(clients, 0.1), paper.threshold(clients, CONNECTION)
    half = Fixed(t=clients // 2 + 1)
    ours = f"ours ({type(made.graph).__name__}, {made.degree:g} neighbours)"
    return [
        Scheme(key="sa", name="SA", graph=Complete(), threshold=half),
        Scheme(
            key="ccesa",
            name=f"CCESA (p = {CONNECTION:g}, t = {t})",
            graph=ErdosRenyi(p=CONNECTION),
            threshold=Fixed(t=t),
        ),
        Scheme(key="ours", name=ours, graph=made.graph, threshold=made.threshold),
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Federation:
    """All clients' models as vectors of words, and the float that one step in a field stands for."""

    vectors: list[Vector]
    fields: Fields
    size: int
    step: float


def encoded(models: Sequence[Row], seed: int) -> Federation:
    clip = max(float(np.abs(model).max()) for model in models)
    quantizer = Quantizer.for_model([models[VICTIM]], clients=len(models), clip=clip)
    vectors = [
        quantizer.encode([model], rng=np.random.default_rng([seed, client])).vector
        for client, model in enumerate(models)
    ]
    return Federation(
        vectors=vectors, fields=quantizer.fields, size=models[VICTIM].size, step=clip / quantizer.levels
    )


def overheard(scheme: Scheme, federation: Federation, threads: int) -> tuple[Row, bool]:
    """The victim's masked vector, taken for a model; and whether the round's sum was exact."""
    for _ in range(_ROUNDS):
        words, exact = _round(scheme, federation.vectors, threads)
        if words is not None:
            steps, _ = federation.fields.split(words)
            return (steps[: federation.size] * federation.step).astype(np.float32), exact
    raise RuntimeError(f"the victim was left out of all {_ROUNDS} rounds of {scheme.name}")


def _round(scheme: Scheme, vectors: list[Vector], threads: int) -> tuple[Vector | None, bool]:
    caught: list[Vector] = []

    def overhear(client: int, message: bytes) -> None:
        if client == VICTIM and len(message) >= vectors[VICTIM].nbytes:
            reply = m.decode(message, len(message))
            if isinstance(reply, m.MaskReply):
                caught.append(from_bytes(reply.vector, WORD_BITS).copy())

    config = RoundConfig(
        clients=len(vectors),
        length=vectors[VICTIM].size,
        bits=WORD_BITS,
        graph=scheme.graph,
        threshold=scheme.threshold,
    )
    report = simulate(config, lambda client: vectors[client], threads=threads, overhear=overhear)
    return (caught[0] if caught else None), report.exact
