"""What noise costs: a client's time, sums beside a trusted curator's, bytes on the wire; draws: ``noise``.

    python -m bench.protocol.privacy --dimension 1048576

measures the noise in sums of that many parameters, and prints it; ``python -m bench --only privacy`` takes
2^16 of them.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.in_turn import both, fastest, processor_ms
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError
from ccesa.plan import Plan, plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer
from ccesa.simulate import simulate
from ccesa.values.fields import WORD_BITS
from ccesa.words import Vector, dtype

MILLION, LARGE, USUAL = 1_000_000, 2**20, 2**16
CLIENTS, FEW, DROPOUT, COLLUSION = 1000, 50, 0.1, 0.05
EPSILON, DELTA, ROUNDS = 8.0, 1e-6, 100
_REPEATS = 9


def compare() -> dict[str, Any]:
    """Measure all of it."""
    made = planned(CLIENTS, LARGE)
    noise = noise_of(made)
    return {
        "epsilon": EPSILON,
        "delta": DELTA,
        "rounds": ROUNDS,
        "clients": CLIENTS,
        "honest": noise.honest,
        "field_bits": noise.field_bits,
        **_alone(),
        "bytes_each": _upload(made) / LARGE,
        "kept": kept(noise),
        "dimension": USUAL,
        **sums(USUAL),
    }


def planned(clients: int, dimension: int, *, lies: bool = False) -> Plan:
    """Return the plan for a server that follows the protocol, or for one that lies on the complete graph."""
    demand = DifferentialPrivacy(
        epsilon=EPSILON, delta=DELTA, rounds=ROUNDS, norm=1.0, against="lies" if lies else "follows"
    )
    how: dict[str, str] = {"guard": "active", "graph": "complete"} if lies else {}
    return plan(clients, DROPOUT, COLLUSION, length=dimension, privacy=demand, **how)  # type: ignore[arg-type]


def noise_of(made: Plan) -> Mechanism:
    """Return the mechanism of a plan that has one."""
    if made.mechanism is None:
        raise ConfigError("a plan without noise")
    return made.mechanism


def sums(dimension: int) -> dict[str, Any]:
    """Measure the noise in sums, each with as many survivors as are expected, and once with everybody.

    Few clients send 2^20 parameters each, whatever the dimension.
    """
    follows, lies = (noise_of(planned(CLIENTS, dimension, lies=lies)) for lies in (False, True))
    few = noise_of(planned(FEW, LARGE, lies=True))  # there is time for it
    left, all_stay = ratios(follows, [_left(CLIENTS), CLIENTS], seed=1)
    return {
        "follows": left,
        "all_stay": all_stay,
        "lies": next(ratios(lies, [_left(CLIENTS)], seed=2)),
        "lies_honest": lies.honest,
        "few": FEW,
        "few_lies": next(ratios(few, [_left(FEW)], seed=3)),
        "few_honest": few.honest,
    }


def ratios(mechanism: Mechanism, survivors: list[int], seed: int) -> Iterator[float]:
    """Yield the measured noise of sums over a trusted curator's, after so many clients, in ascending order.

    All of them send the same vector, as long as may be and as hard on the fields as it gets.
    """
    rng = np.random.default_rng([seed, mechanism.dimension])
    model, context = rng.normal(size=mechanism.dimension), rng.bytes(32)
    model *= kept(mechanism) * mechanism.norm / np.linalg.norm(model)
    quantizer = NoisyQuantizer.for_model([model], mechanism)
    total: Vector = np.zeros(mechanism.length, dtype(WORD_BITS))
    for client in range(1, survivors[-1] + 1):
        total += quantizer.encode([model], context, rng.bytes).vector
        if client in survivors:
            noise = client * (quantizer.decode(total, client, context).arrays[0] - model)
            yield math.sqrt(np.mean(noise**2)) / mechanism.curator


def kept(mechanism: Mechanism) -> float:
    """Return how much of the norm is left: clipping leaves room for rounding to the fine grid."""
    return math.sqrt(1 - mechanism.dimension / (12 * mechanism.bound**2))


def _left(clients: int) -> int:
    return round((1 - DROPOUT) * clients)


def _alone() -> dict[str, Any]:
    """Return ``million`` of a process in which numpy has one thread; several would wait for each other."""
    command = [sys.executable, "-c", "from bench import privacy; print(privacy.json.dumps(privacy.million()))"]
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)  # noqa: S603
    return dict(json.loads(told.stdout))


def million() -> dict[str, dict[str, float]]:
    """Measure the processor time of a client with a million parameters, and of reading a sum of such."""
    rng = np.random.default_rng(0)
    model = [rng.normal(size=MILLION).astype(np.float32)]
    quantizer = NoisyQuantizer.for_model(model, noise_of(planned(CLIENTS, MILLION)))
    total = quantizer.encode(model, bytes(32)).vector
    return {
        "client_ms": processor_ms(lambda: quantizer.encode(model, bytes(32)), _REPEATS),
        "mean_ms": processor_ms(lambda: quantizer.decode(total, 1, bytes(32)), _REPEATS),
    }


def _upload(made: Plan) -> int:
    """Return the bytes of a mask reply in a real round; among four clients it is as long as among many."""
    sizes: list[int] = []
    config = RoundConfig(clients=4, length=made.length, bits=WORD_BITS)
    simulate(config, overhear=lambda client, message: sizes.append(len(message)))
    return max(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.protocol.privacy", description=__doc__)
    parser.add_argument("--dimension", type=int, default=USUAL)
    for name, value in sums(parser.parse_args().dimension).items():
        print(f"{name:12} {value:.4g}")


def targets(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return the rows of targets."""
    over = "noise in a sum over a trusted curator's"
    return [
        (f"{over}: {found['clients']:,} clients, a tenth drop out", found["follows"], 1.08, True),
        (f"{over}: the same, nobody drops out", found["all_stay"], 1.14, True),
        (f"{over}: the server may lie, {found['clients']:,} clients", found["lies"], 1.10, True),
        (f"{over}: the server may lie, {found['few']} clients", found["few_lies"], 1.25, True),
        ("noise: a client with a million parameters: ms", fastest(found["client_ms"]), 60, True),
        ("noise: upload, bytes per parameter", found["bytes_each"], 1.6, True),
    ]


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    return (
        f"ε = {found['epsilon']:g}, δ = {found['delta']:g}, {found['rounds']} rounds; a tenth drop out, a "
        "twentieth collude (`bench/protocol/privacy.py`). Clipping, rotating, rounding, checking and "
        f"drawing of a million parameters together take {both(found['client_ms'], 0)} ms of processor time, "
        f"compiled (with numpy alone), one thread; the mean of a sum {both(found['mean_ms'], 0)} ms. "
        f"With {found['clients']:,} clients, of whom {found['honest']} are counted on, "
        f"fields have {found['field_bits']} bits, and a mask reply over "
        f"2^20 parameters has {found['bytes_each']:.2f} bytes for each. The standard deviation of the noise "
        f"in a sum of all survivors' real vectors, {found['dimension']:,} parameters (2^20 with "
        f"{found['few']} clients), over what a trusted curator adds to the same sum, tightly accounted:\n\n"
        "| | honest | measured |\n|---|--:|--:|\n"
        f"| {found['clients']:,} clients, the server follows | {found['honest']} | {found['follows']:.3f} |\n"
        f"| the same, nobody drops out | {found['honest']} | {found['all_stay']:.3f} |\n"
        f"| {found['clients']:,} clients, complete graph, the server may lie | {found['lies_honest']} "
        f"| {found['lies']:.3f} |\n"
        f"| {found['few']} clients, complete graph, the server may lie | {found['few_honest']} "
        f"| {found['few_lies']:.3f} |\n\n"
        f"A vector as long as the norm keeps {100 * found['kept']:.1f} % of its length: the rest is room for "
        "rounding."
    )


if __name__ == "__main__":
    main()
