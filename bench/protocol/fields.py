"""What fields in words are worth: a thousand clients, values of 8 bits, a million parameters.

Beside a word of 32 bits for every parameter: the bytes of a reply, the mask step of a client, which makes and
adds a keystream for each of its mask neighbours, and what laying into words and reading the sum cost.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from bench.in_turn import both, processor_ms
from ccesa.agreement.config import RoundConfig
from ccesa.plan import plan
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests
from ccesa.values.fields import WORD_BITS, Fields
from ccesa.values.quantize import Quantizer
from ccesa.words import Vector

CLIENTS, LENGTH, VALUE_BITS = 1000, 1_000_000, 8
#: What Flower's SecAgg+ sends for each parameter: 64-bit integers (bench/flower/side_by_side.py).
FLOWER_BYTES = 8
#: Clients whose mask step is measured, of either kind in turn.
MEASURED = 25


def compare() -> dict[str, Any]:
    """Measure both kinds in turn, in rounds of the same planned graph."""
    fields = Fields.choose(CLIENTS, VALUE_BITS)
    rng = np.random.default_rng(0)
    plain = rng.integers(2**32, size=LENGTH, dtype=np.uint32)
    packed = rng.integers(2**WORD_BITS, size=fields.length(LENGTH), dtype=np.uint64)
    rounds = {"words": _asked(plain), "fields": _asked(packed)}
    times: dict[str, list[float]] = {name: [] for name in rounds}
    for place in range(MEASURED):
        for name, (clients, requests) in rounds.items():
            start = time.perf_counter()
            reply = clients[place].receive(requests[place])
            times[name].append((time.perf_counter() - start) * 1e3)
    made = plan(CLIENTS, 0.1)
    return {
        "clients": CLIENTS,
        "length": LENGTH,
        "degree": made.degree,
        "mask_degree": made.mask_degree,
        **fields.as_dict(),
        "reply_bytes": len(reply),  # of the last, which has fields
        "flower_bytes": FLOWER_BYTES,
        "words_ms": median(times["words"]),
        "fields_ms": median(times["fields"]),
        "ratio": median(a / b for a, b in zip(times["words"], times["fields"], strict=True)),
        **_passes(),
    }


def _asked(vector: Vector) -> tuple[dict[int, Client], Requests]:
    """Return clients of a round before their mask step, with one vector for all, and what they are asked."""
    made = plan(CLIENTS, 0.1, length=vector.size, bits=8 * vector.itemsize)
    config: RoundConfig = made.config()
    clients, server = {i: Client(config, i, vector, threads=1) for i in range(CLIENTS)}, Server(config)
    requests = server.open()
    while server.step.name != "mask":
        for i, request in requests.items():
            server.receive(i, clients[i].receive(request))
        requests = server.close()
    return clients, requests


def _passes() -> dict[str, dict[str, float]]:
    """Measure how long it takes to quantize, to lay into words, and to read a sum."""
    model = [np.random.default_rng(1).uniform(-1, 1, LENGTH).astype(np.float32)]
    quantizer = Quantizer.for_model(model, clients=CLIENTS, clip=1.0, bits=VALUE_BITS)
    row, _ = quantizer.row(model)
    vector = quantizer.fields.pack(row)
    work: dict[str, Callable[[], object]] = {
        "encode_ms": lambda: quantizer.encode(model),
        "pack_ms": lambda: quantizer.fields.pack(row),
        "decode_ms": lambda: quantizer.decode(vector),
        "unpack_ms": lambda: quantizer.fields.unpack(vector, row.size),
    }
    return {name: processor_ms(one, MEASURED) for name, one in work.items()}


def bytes_each(found: dict[str, Any]) -> float:
    """Return the bytes of a mask reply for each parameter."""
    return float(found["reply_bytes"] / found["length"])


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    ms = {name: format(found[f"{name}_ms"], ".1f") for name in ("words", "fields")}
    ms |= {name: both(found[f"{name}_ms"], 1) for name in ("pack", "encode", "unpack", "decode")}
    return (
        f"{found['clients']:,} clients, the planned circle of {found['degree']:.0f} neighbours with masks on "
        f"{found['mask_degree']:.0f}, {found['length']:,} values of {found['value_bits']} bits in fields of "
        f"{found['bits']} bits, {found['per_word']} per 64-bit word (`bench/protocol/fields.py`). A mask "
        f"reply has {bytes_each(found):.2f} bytes per parameter; Flower's SecAgg+ sends "
        f"{found['flower_bytes']}. A client's mask step takes {ms['fields']} ms, with a 32-bit word per "
        f"parameter {ms['words']} ms; in turn, with one thread, the median ratio is {found['ratio']:.2f}. In "
        f"processor time, compiled (with numpy alone), laying the numbers into words takes {ms['pack']} of "
        f"the {ms['encode']} ms of `Quantizer.encode`, reading the sum {ms['unpack']} of the "
        f"{ms['decode']} ms of `decode`."
    )
