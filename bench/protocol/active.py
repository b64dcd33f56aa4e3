"""What the guard ``active`` adds: both guards on the same graph, and the signatures that must be checked."""

import os
import time
from statistics import median
from typing import Any

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import primitives
from ccesa.plan import plan
from ccesa.simulate import SimulatedRound, federate, simulate

CLIENTS, LENGTH, DROPOUT, COLLUSION = 1000, 10_000, 0.1, 0.1


def compare() -> dict[str, Any]:
    """One round of each guard at the planned degree, in turn with samples of the library's verification."""
    planned = plan(CLIENTS, DROPOUT, COLLUSION, guard="active", length=LENGTH)
    federation = federate(CLIENTS, graph=planned.graph, threshold=planned.threshold)
    signed = federation.charter.config(length=LENGTH)
    plain = RoundConfig(clients=CLIENTS, length=LENGTH, graph=signed.graph, threshold=signed.threshold)
    samples = [_verification_ms()]
    curious = simulate(plain, seed=1, threads=1)
    samples.append(_verification_ms())
    active = simulate(signed, seed=1, threads=1, federation=federation)
    samples.append(_verification_ms())
    floor = 2 * planned.degree * median(samples)
    extra = _client_ms(active) - _client_ms(curious)
    return {
        "clients": CLIENTS,
        "degree": planned.degree,
        "t": planned.t,
        "length": LENGTH,
        "verification_ms": median(samples),
        "floor_ms": floor,
        "client_ms": {"curious": _client_ms(curious), "active": _client_ms(active)},
        "server_ms": {"curious": curious.server_ms, "active": active.server_ms},
        "extra_ratio": extra / floor,
        "bytes": {"curious": curious.client_bytes, "active": active.client_bytes},
        "exact": curious.exact and active.exact,
    }


def _client_ms(report: SimulatedRound) -> float:
    return sum(report.client_ms.values())


def _verification_ms(times: int = 500) -> float:
    private = primitives.signing_key(os.urandom(32))
    public = primitives.public_key(private)
    signature = primitives.sign(private, bytes(32))
    start = time.thread_time()
    for _ in range(times):
        primitives.verify(public, signature, bytes(32))
    return (time.thread_time() - start) * 1e3 / times


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    moved = {guard: sum(ways.values()) for guard, ways in found["bytes"].items()}
    return (
        f"{found['clients']:,} clients, {found['length']:,} elements, the planned circle of "
        f"{found['degree']} neighbours (t = {found['t']}), masks on every edge; "
        "both guards in one run, nobody drops out.\n\n"
        "| | curious | active |\n|---|---:|---:|\n"
        f"| client, ms | {found['client_ms']['curious']:.1f} | {found['client_ms']['active']:.1f} |\n"
        f"| server, ms | {found['server_ms']['curious']:,.0f} | {found['server_ms']['active']:,.0f} |\n"
        f"| client, bytes sent and received | {moved['curious']:,.0f} | {moved['active']:,.0f} |\n\n"
        f"The client's extra time is {found['extra_ratio']:.2f} times its floor of {2 * found['degree']} "
        f"Ed25519 verifications ({found['verification_ms'] * 1e3:.0f} µs each): one for "
        "each neighbour's keys, one for each neighbour's word on who survived."
    )
