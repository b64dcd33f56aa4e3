"""refused.json: what makes a client of either guard refuse, repeat or complain."""

from typing import Any

import msgspec

from cases import rounds
from cases.active_rounds import plans_with_sum
from cases.charters import chartered
from cases.common import STREAM, Case, sample
from cases.parties import Party, join, outcome
from cases.refused_accept import accepting_parties
from cases.refused_active import active_entry, active_parties
from cases.refused_curious import curious_parties
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete, ErdosRenyi

DESCRIPTION = (
    "What a client must not answer, and what it must answer again. parties: clients with their "
    "configuration, their vector, the task they work on (32 zero bytes where it is missing), the seed of "
    "their randomness, their own limits (floor), their memory of tasks (memory, a list of entries; a party "
    "without it remembers nothing), under the guard active with charter and identity, and the exchanges of a "
    "round that goes well. exchanges: feed the named party so many of those (after), then the requests of "
    "steps in order; each has a reply, or the name of a refusal. After FaultyServer every request is an "
    "OrderError. A number in place of bytes is that of the party's exchange whose request, or reply, it "
    "is. Where memory stands beside a request, the memory has these entries and no others before it: sent "
    "with a context, vector and release with task, series_id and number, counted with a task. joining: "
    "clients that are refused before they make any key, or are not; used_rounds are series ids, each with "
    "the number as four little-endian bytes, that the client remembers, now is the time in seconds since "
    "1970, otherwise 0. many: the party of that name gets a share-request with so many neighbours, the "
    "ids from 0 on, j with the keys 2^64 + 2j and 2^64 + 2j + 1 as 32 little-endian bytes, all flags 1."
)


ACTIVE_DESCRIPTION = "Clients of the guard active in rounds without the step accept, in the form of refused.json."
ACCEPT_DESCRIPTION = "Clients of both guards in rounds with the step accept, in the form of refused.json."


def make() -> Case:
    return {
        **tried(DESCRIPTION, curious_parties()),
        "joining": [*_joining(), *_joining_active()],
        "many": [{"party": "a large neighbourhood", "neighbours": 65520, "error": "FaultyServer"}],
    }


def make_active() -> Case:
    return tried(ACTIVE_DESCRIPTION, active_parties())


def make_accept() -> Case:
    return tried(ACCEPT_DESCRIPTION, accepting_parties())


def tried(description: str, parties: list[Party]) -> Case:
    return {
        "description": description,
        "randomness": STREAM,
        "parties": [party.case() for party in parties],
        "exchanges": [case for party in parties for case in party.tried],
    }


# Before the first request


def joined(reason: str, entry: Case) -> Case:
    def attempt() -> bytes:
        join(entry)
        return b""

    found = outcome(attempt)
    return {"reason": reason, **entry, **({"error": found["error"]} if "error" in found else {})}


def _joining() -> list[Case]:
    harary = rounds.plans_with_sum()[0].config
    thin = RoundConfig(series_id=sample("thin"), clients=9, length=2, bits=8, graph=ErdosRenyi(p=0.5, mask_p=0.25))
    plain = RoundConfig(series_id=sample("plain"), clients=9, length=2, bits=8)

    def entry(round: RoundConfig, **more: Any) -> Case:
        base = {"config": round.encode(), "client": 0, "seed": sample("joining")}
        return {**base, "vector": bytes(round.vector_bytes), **more}

    def with_graph(p: float, mask_p: float | None = None) -> RoundConfig:
        return msgspec.structs.replace(thin, graph=ErdosRenyi(p=p, mask_p=mask_p))

    floors: dict[str, tuple[RoundConfig, Any, Any]] = {
        "clients": (harary, 10, 11),
        "degree": (harary, 6, 7),
        "mask_degree": (harary, 4, 5),
        "threshold": (harary, 4, 5),
        "threshold_ratio": (harary, 0.66, 0.67),
        "survivors": (harary, 3, 4),
    }
    cases = {
        "plain": entry(plain),
        "the last client": entry(plain, client=8),
        "a client beyond the last": entry(plain, client=9),
        "a client before the first": entry(plain, client=-1),
        "a vector of one word too few": entry(plain, vector=bytes(1)),
        "a vector of one word too many": entry(plain, vector=bytes(3)),
        "a round that was used": entry(plain, used_rounds=[sample("other"), plain.round_id]),
        "other rounds that were used": entry(plain, used_rounds=[sample("other")]),
        "the same series, another number": entry(
            msgspec.structs.replace(plain, number=1), used_rounds=[plain.round_id]
        ),
        "a task of 31 bytes": entry(plain, task=bytes(31)),
        "a task of 33 bytes": entry(plain, task=bytes(33)),
        "an empty task": entry(plain, task=b""),
        "a memory of tasks, and a task": entry(plain, task=sample("task"), memory=[]),
        "a memory of tasks, and no task": entry(plain, memory=[]),
        "a configuration under a charter": entry(plain, config=_chartered()),
        "not a configuration": entry(plain, config=b"\x80"),
        "a number in place of a configuration": entry(plain, config=b"\x05"),
        "a graph that is text": entry(plain, config=_edited(plain, graph="complete")),
        "a threshold that is text": entry(plain, config=_edited(plain, threshold="majority")),
        "one holder where degrees are small": entry(
            plain, config=_edited(with_graph(0.0625), threshold={"type": "fixed", "t": 1})
        ),
        "mean degree of 0.5 by default": entry(with_graph(0.0625)),
        "mean degree of 1, but a threshold of 2 at it": entry(with_graph(0.125)),
        "mean mask edges of 0.5 by default": entry(with_graph(0.5, 0.0625)),
        "mean mask edges of 1": entry(with_graph(0.5, 0.125)),
        "mean mask edges of 2, at least 2": entry(thin, floor={"mask_degree": 2}),
        "mean mask edges of 2, at least 3": entry(thin, floor={"mask_degree": 3}),
        "mean degree of 4, at least 5, where degrees vary": entry(thin, floor={"degree": 5}),
        "mask_p of a complete graph": entry(
            msgspec.structs.replace(plain, graph=Complete(mask_p=0.5)), floor={"mask_degree": 5}
        ),
        "mask_degree of a complete graph": entry(
            msgspec.structs.replace(plain, graph=Complete(mask_degree=4)), floor={"mask_degree": 5}
        ),
        "two survivors, by default": entry(msgspec.structs.replace(plain, min_survivors=2)),
    }
    for name, (config, least, more) in floors.items():
        cases[f"{name} at its limit"] = entry(config, floor={name: least})
        cases[f"{name} below its limit"] = entry(config, floor={name: more})
    return [joined(reason, case) for reason, case in cases.items()]


def _chartered() -> bytes:
    return chartered("plain", 5).config(length=2, series_id=sample("plain")).encode()


def _edited(config: RoundConfig, **fields: Any) -> bytes:
    """Return the encoding with other values, which need not be a configuration."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(config.encode()), **fields})


def _reordered(config: RoundConfig, *names: str) -> bytes:
    values = msgspec.msgpack.decode(config.encode())
    return msgspec.msgpack.encode({name: values[name] for name in names})


def _joining_active() -> list[Case]:
    plan = plans_with_sum()[4]
    good, other = active_entry(plan, 0), chartered("plain", 5).config(length=3, series_id=sample("plain"))
    expires = plan.agreed.expires
    cases = {
        "active": good,
        "active, the second before the charter expires": {**good, "now": expires - 1},
        "active, the second in which the charter expires": {**good, "now": expires},
        "active, not a member": {**good, "identity": sample("a stranger")},
        "active, another charter": {**good, "config": other.encode()},
        "active, a configuration of the guard curious": {
            **good,
            "config": RoundConfig(series_id=sample("plain"), clients=5, length=3, bits=8).encode(),
        },
        "active, a number in place of a configuration": {**good, "config": b"\x05"},
        "active, series_id before the charter": {
            **good,
            "config": _reordered(plan.config, "type", "version", "series_id", "charter", "number", "length", "accept"),
        },
        "active, a length that is text": {**good, "config": _edited(plan.config, length="3")},
        "active, version 1": {**good, "config": _edited(plan.config, version=1)},
        "active, another type": {**good, "config": _edited(plan.config, type="round")},
        "active, number as text": {**good, "config": _edited(plan.config, number="0")},
        "active, a number beyond the last": {**good, "config": _edited(plan.config, number=2**32)},
        "active, accept as a number": {**good, "config": _edited(plan.config, accept=1)},
        "active, a vector of one word too few": {**good, "vector": bytes(2)},
        "active, a round that was used": {**good, "used_rounds": [plan.config.round_id]},
        "active, a memory of tasks": {**good, "memory": []},
        "active, a memory of tasks, and no task": {**good, "task": bytes(32), "memory": []},
    }
    return [joined(reason, case) for reason, case in cases.items()]
