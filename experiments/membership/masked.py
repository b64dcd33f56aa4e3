"""What an eavesdropper sees of a client's model: its masked vector in a real round, read as floats."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import paper
from ccesa.protocol import messages as m
from ccesa.simulate import simulate, usual_plan
from ccesa.values.fields import WORD_BITS, Fields
from ccesa.values.quantize import Quantizer
from ccesa.words import Vector, from_bytes
from experiments.schemes import Scheme

VICTIM = 0
#: Of so few clients that p* exceeds 1; the paper does not say which p it used.
CONNECTION = 0.7
#: What the planned graph is made for; p*, where there is one, as well.
DROPOUT = 0.1
#: In a sparse graph of few clients the victim may be left out of a round; then the next one is listened to.
_ROUNDS = 50

Row = NDArray[np.float32]


def all_schemes(clients: int) -> list[Scheme]:
    made, p = usual_plan(clients, DROPOUT), _connection(clients)
    t, half = paper.threshold(clients, p), Fixed(t=clients // 2 + 1)
    masks = f", masks with {made.mask_degree:g}" if made.mask_degree < made.degree else ""
    ours = f"planned ({type(made.graph).__name__}, {made.degree:g} of {clients - 1} neighbours{masks})"
    return [
        Scheme(key="sa", name="SA", graph=Complete(), threshold=half),
        Scheme(key="ccesa", name=f"CCESA (p = {p:g}, t = {t})", graph=ErdosRenyi(p=p), threshold=Fixed(t=t)),
        Scheme(key="ours", name=ours, graph=made.graph, threshold=made.threshold),
    ]


def _connection(clients: int) -> float:
    rule = paper.rule(clients, DROPOUT)
    return round(rule.p_star, 4) if rule else CONNECTION


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """All clients' models as vectors of words, and the float that one step in a field stands for."""

    vectors: list[Vector]
    fields: Fields
    size: int
    step: float


def encoded(models: Sequence[Row], seed: int) -> Encoded:
    clip = max(float(np.abs(model).max()) for model in models)
    quantizer = Quantizer.for_model([models[VICTIM]], clients=len(models), clip=clip)
    vectors = [
        quantizer.encode([model], rng=np.random.default_rng([seed, client])).vector
        for client, model in enumerate(models)
    ]
    return Encoded(vectors=vectors, fields=quantizer.fields, size=models[VICTIM].size, step=clip / quantizer.levels)


def overheard(scheme: Scheme, federation: Encoded, threads: int) -> tuple[Row, bool]:
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


def overheard_in(file: Path, seed: int, threads: int) -> dict[str, tuple[Row, bool]]:
    """The same for every scheme, of models that lie in a file: for a process beside the one that trains."""
    models = np.load(file, mmap_mode="r")
    federation = encoded(list(models), seed)
    file.unlink()
    return {scheme.key: overheard(scheme, federation, threads) for scheme in all_schemes(len(models))}
