"""messages.json: encodings of the messages of ``curious`` and of configurations, and what is neither."""

from typing import Any

import msgspec
import numpy as np

from cases.common import Case, configurations, fields, sample
from ccesa.agreement.config import MAX_BYTES
from ccesa.protocol import messages as m

DESCRIPTION = (
    "Every message of the guard curious with its fields and its only encoding, a msgpack array; "
    "configurations of that guard, a msgpack map; packed lists of client ids. Everything under a bad key "
    "must be refused with the named error, messages under the bound of 'most' bytes. append_zeros: so many "
    "zero bytes follow the encoding. Where a bad configuration has fields, building it from them must raise "
    "ConfigError."
)
MOST = 1024
CONTEXT = configurations()["defaults"].context
ERROR = {"error": "MalformedMessage"}


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "messages": [message_case(message) for message in [*_small(), *_large()]],
        "bad_messages": [bad for message in _small() for bad in bad_of(message)] + _bad_messages(),
        "packed_ids": [_packed_ids([]), _packed_ids([0]), _packed_ids([3, 4, 99])],
        "bad_packed_ids": _bad_packed_ids(),
        "configurations": [
            {"name": name, "fields": fields(config), "encoding": config.encode()}
            for name, config in configurations().items()
            if config.guard == "curious"
        ],
        "bad_configurations": _bad_forms() + [_impossible(*case) for case in _impossible_values()],
    }


def _small() -> list[m.Message]:
    """One message of each type, for two neighbours."""
    head: dict[str, Any] = {"context": CONTEXT, "client": 5}
    ids = m.pack_ids(np.array([2, 7]))
    said: dict[str, Any] = {"tag": sample("tag", 16), "among": sample("among"), "task": sample("task")}
    return [
        m.AdvertiseRequest(**head, number=b"\x2c\x01\x00\x00"),
        m.AdvertiseReply(**head, keys=sample("keys", 64)),
        m.ShareRequest(**head, neighbours=ids, keys=sample("keys", 128), masked=b"\x01\x00"),
        m.ShareReply(**head, commitment=sample("commitment"), sealed=sample("sealed", 160)),
        m.AcceptRequest(**head, dropped=ids[:4], commitments=sample("commitments"), sealed=sample("sealed", 80)),
        m.AcceptReply(**head, accused=ids[4:], deposits=sample("deposits", 48)),
        m.MaskRequest(**head, dropped=ids[:4], task=sample("task")),
        m.MaskAtOnceRequest(
            **head, dropped=ids[:4], commitments=sample("commitments"), sealed=sample("sealed", 80), task=sample("task")
        ),
        m.MaskReply(**head, vector=memoryview(sample("vector", 20)), **said),
        m.Complaint(**head, accused=ids),
        m.UnmaskRequest(**head, dropped=ids[4:]),
        m.UnmaskReply(**head, shares=sample("shares", 64)),
    ]


def _large() -> list[m.Message]:
    """Ids and byte strings at the sizes where a msgpack header grows."""
    sizes = ((127, 255), (128, 256), (255, 0), (256, 1), (65535, 2), (65536, 3), (2**32 - 2, 300))
    large: list[m.Message] = [
        m.UnmaskReply(context=CONTEXT, client=client, shares=bytes(size)) for client, size in sizes
    ]
    return [
        *large,
        m.UnmaskRequest(context=CONTEXT, client=0, dropped=b""),
        m.AcceptReply(context=CONTEXT, client=0, accused=b"", deposits=b""),
    ]


def _values(message: m.Message) -> list[Any]:
    return msgspec.msgpack.decode(message.encode())


def message_case(message: m.Message) -> Case:
    names = ["type", *message.__struct_fields__]
    named = dict(zip(names, _values(message), strict=True))
    return {**named, "most": MOST, "encoding": message.encode()}


def _bad(reason: str, encoding: bytes, most: int = MOST) -> Case:
    return {"reason": reason, "most": most, "encoding": encoding, **ERROR}


def _array(parts: list[bytes]) -> bytes:
    return bytes([0x90 | len(parts)]) + b"".join(parts)


def _claiming(data: bytes, more: int) -> bytes:
    return bytes([0xC4, len(data) + more]) + data


def bad_of(message: m.Message) -> list[Case]:
    """What can be wrong with a message of any type."""
    encoding, values = message.encode(), _values(message)
    parts = [msgspec.msgpack.encode(value) for value in values]
    tag, context, client, *rest = parts
    wrong = {
        "a trailing byte": encoding + b"\x00",
        "truncated by a byte": encoding[:-1],
        "truncated after its type": encoding[: 1 + len(tag)],
        "last field missing": _array(parts[:-1]),
        "a field too many": _array([*parts, b"\x00"]),
        "context is text": _array([tag, msgspec.msgpack.encode("c" * 32), client, *rest]),
        "client is text": _array([tag, context, b"\xa15", *rest]),
        "last field is nil": _array([*parts[:-1], b"\xc0"]),
        "last field is text": _array([*parts[:-1], msgspec.msgpack.encode("v" * len(values[-1]))]),
        "last field not minimal, bin16": _array([*parts[:-1], b"\xc5\x00" + parts[-1][1:]]),
        "last field claims a byte more": _array([*parts[:-1], _claiming(values[-1], 1)]),
        "last field claims a byte less": _array([*parts[:-1], _claiming(values[-1], -1)]),
        "client not minimal, uint8": _array([tag, context, b"\xcc\x05", *rest]),
        "context not minimal, bin16": _array([tag, b"\xc5\x00\x20" + context[2:], client, *rest]),
        "one byte more than possible": encoding,
    }
    most = {"one byte more than possible": len(encoding) - 1}
    return [_bad(f"{values[0]}: {reason}", data, most.get(reason, MOST)) for reason, data in wrong.items()]


def _bad_messages() -> list[Case]:
    """What one example shows for all types."""
    tag, context, client, number = [msgspec.msgpack.encode(value) for value in _values(_small()[0])]
    name = tag[1:]
    wrong = {
        "nothing at all": b"",
        "nil": b"\xc0",
        "the byte that msgpack never uses": b"\xc1",
        "an empty array": b"\x90",
        "a map": msgspec.msgpack.encode(
            {"type": "advertise-request", "context": CONTEXT, "client": 5, "number": bytes(4)}
        ),
        "unknown type": _array([b"\xb1advertise-requesT", context, client, number]),
        "type as a byte string": _array([b"\xc4\x11" + name, context, client, number]),
        "type not minimal, str8": _array([b"\xd9\x11" + name, context, client, number]),
        "type is not UTF-8": _array([b"\xb1\xff" + name[1:], context, client, number]),
        "type as a number": _array([b"\x00", context, client, number]),
        "array header not minimal, array16": b"\xdc\x00\x04" + tag + context + client + number,
        "array header not minimal, array32": b"\xdd\x00\x00\x00\x04" + tag + context + client + number,
        "array that claims 2^32 - 1 items": b"\xdd\xff\xff\xff\xff" + tag + context + client + number,
        "byte string that claims 2^32 - 1 bytes": _array([tag, b"\xc6\xff\xff\xff\xff" + CONTEXT, client, number]),
        "client not minimal, uint16": _array([tag, context, b"\xcd\x00\x05", number]),
        "client not minimal, uint32": _array([tag, context, b"\xce\x00\x00\x00\x05", number]),
        "client not minimal, uint64": _array([tag, context, b"\xcf" + bytes(7) + b"\x05", number]),
        "client as a signed number, int8": _array([tag, context, b"\xd0\x05", number]),
        "client as a float": _array([tag, context, msgspec.msgpack.encode(5.0), number]),
        "client is true": _array([tag, context, b"\xc3", number]),
        "client is an extension": _array([tag, context, b"\xd4\x01\x05", number]),
        "arrays, 900 deep": b"\x91" * 900,
        "two messages": _small()[0].encode() * 2,
    }
    return [_bad(reason, data) for reason, data in wrong.items()]


def _packed_ids(ids: list[int]) -> Case:
    return {"clients": 100, "ids": ids, "data": m.pack_ids(np.array(ids, np.int64))}


def _bad_packed_ids() -> list[Case]:
    wrong = {
        "not ascending": [4, 3],
        "an id twice": [3, 4, 4],
        "never enrolled": [3, 100],
        "the largest word": [2**32 - 1],
    }
    cases = [{"reason": reason, **_packed_ids(ids), **ERROR} for reason, ids in wrong.items()]
    return [*cases, {"reason": "half an id", "clients": 100, "data": b"\x03\x00\x00\x00\x04\x00", **ERROR}]


def _map(values: Case) -> bytes:
    return msgspec.msgpack.encode(values)


def _bad_forms() -> list[Case]:
    """Bytes that say something sensible, but are not its one encoding; and bytes that say nothing."""
    config = configurations()["defaults"]
    values, encoding = fields(config), config.encode()
    graph = {"type": "erdos-renyi", "p": 1, "mask_p": None}
    wrong = {
        "nothing at all": b"",
        "a trailing byte": encoding + b"\x00",
        "truncated by a byte": encoding[:-1],
        "an array": msgspec.msgpack.encode(list(values.values())),
        "a message": _small()[0].encode(),
        "type missing": _map({name: value for name, value in values.items() if name != "type"}),
        "unknown type": _map({**values, "type": "squad"}),
        "a field that has a default is missing": _map({k: v for k, v in values.items() if k != "accept"}),
        "a field that has none is missing": _map({k: v for k, v in values.items() if k != "clients"}),
        "an unknown field": _map({**values, "rounds": 1}),
        "a field twice": b"\x8f" + encoding[1:] + b"\xa6number\x00",
        "fields in another order": _map(dict(sorted(values.items()))),
        "clients not minimal, uint8": encoding.replace(b"\xa7clients\x08", b"\xa7clients\xcc\x08"),
        "series_id not minimal, bin16": encoding.replace(b"\xc4\x20", b"\xc5\x00\x20"),
        "map header not minimal, map16": b"\xde\x00\x0e" + encoding[1:],
        "clients as a float": _map({**values, "clients": 8.0}),
        "series_id as text": _map({**values, "series_id": "r" * 32}),
        "series_id as nil": _map({**values, "series_id": None}),
        "accept as a number": _map({**values, "accept": 0}),
        "accept as nil": _map({**values, "accept": None}),
        "number as a float": _map({**values, "number": 0.0}),
        "number is true": _map({**values, "number": True}),
        "p as the integer 1": _map({**values, "graph": graph}),
        "unknown graph": _map({**values, "graph": {"type": "star"}}),
        "a field of another graph": _map({**values, "graph": {"type": "harary", "degree": 2, "p": 0.5}}),
        "guard as a number": _map({**values, "guard": 1}),
        "curious with a charter of nil": _map({**values, "charter": None}),
        "active, with all that its charter says": _map({**values, "guard": "active", "charter": sample("charter")}),
        "active, without its charter at hand": configurations()["active"].encode(),
        "linear without base": _map({**values, "threshold": {"type": "linear", "slope": 512}}),
        "linear, base before slope": _map({**values, "threshold": {"type": "linear", "base": 2, "slope": 512}}),
        "slope as a float": _map({**values, "threshold": {**_linear(512, 2), "slope": 512.0}}),
        "a field of another threshold": _map({**values, "threshold": {**_linear(512, 2), "t": 5}}),
        "generator is not UTF-8": encoding.replace(b"\xaaaes128-ctr", b"\xaaaes128-ct\xff"),
    }
    cases = [{"reason": reason, "encoding": data, **ERROR} for reason, data in wrong.items()]
    oversize = {"reason": "longer than any configuration", "encoding": encoding, "append_zeros": MAX_BYTES}
    return [*cases, {**oversize, **ERROR}]


def _impossible_values() -> list[tuple[str, Case]]:
    return [*_impossible_sizes(), *_impossible_graphs(), *_impossible_thresholds(), *_impossible_guards()]


def _impossible_sizes() -> list[tuple[str, Case]]:
    return [
        ("version 1", {"version": 1}),
        ("version 3", {"version": 3}),
        ("two clients", {"clients": 2, "min_survivors": 2}),
        ("minus one clients", {"clients": -1}),
        ("more clients than ids", {"clients": 2**32, "graph": _harary(2)}),
        ("no element", {"length": 0}),
        ("too many elements", {"length": 2**32}),
        ("24 bits", {"bits": 24}),
        ("unknown generator", {"generator": "mt19937"}),
        ("unknown guard", {"guard": "none"}),
        ("one survivor", {"min_survivors": 1}),
        ("more survivors than clients", {"min_survivors": 9}),
        ("series_id of 31 bytes", {"series_id": sample("series id", 31)}),
        ("series_id of 33 bytes", {"series_id": sample("series id", 33)}),
        ("a number before the first", {"number": -1}),
        ("a number beyond the last", {"number": 2**32}),
        ("unknown agreement", {"agreement": "x448"}),
        ("no agreement", {"agreement": None}),
        ("the hybrid agreement without accept", {"agreement": "x25519-mlkem768"}),
    ]


def _impossible_graphs() -> list[tuple[str, Case]]:
    return [
        ("p = 0", {"graph": _erdos_renyi(0.0)}),
        ("p is negative", {"graph": _erdos_renyi(-0.5)}),
        ("p above 1", {"graph": _erdos_renyi(1.0000000000000002)}),
        ("mask_p = 0", {"graph": _erdos_renyi(0.5, 0.0)}),
        ("mask_p above p", {"graph": _erdos_renyi(0.5, 0.75)}),
        ("degree 0", {"graph": _harary(0)}),
        ("odd degree", {"graph": _harary(3)}),
        ("as many neighbours as clients", {"graph": _harary(8)}),
        ("odd mask_degree", {"graph": _harary(6, 3)}),
        ("mask_degree above degree", {"graph": _harary(4, 6)}),
        ("complete with both mask rules", {"graph": _complete(0.5, 2)}),
        ("complete, mask_p above 1", {"graph": _complete(1.5)}),
        ("complete, mask_degree of all", {"graph": _complete(None, 8)}),
        ("complete, more holders than the field", {"clients": 65521}),
    ]


def _impossible_thresholds() -> list[tuple[str, Case]]:
    return [
        ("t = 1", {"threshold": {"type": "fixed", "t": 1}}),
        ("t above the number of holders", {"threshold": {"type": "fixed", "t": 9}}),
        ("two disjoint sets of t holders", {"threshold": {"type": "fixed", "t": 4}}),
        ("slope is negative", {"threshold": _linear(-1, 5)}),
        ("slope above 1024", {"threshold": _linear(1025, 0)}),
        ("base is negative", {"threshold": _linear(512, -1)}),
        ("base above the number of holders in the field", {"threshold": _linear(0, 65521)}),
        ("linear threshold above the number of holders", {"threshold": _linear(0, 9)}),
        ("steep linear threshold above the number of holders", {"threshold": _linear(1024, 2)}),
        (
            "linear threshold above the number of holders at the mean degree of 3.5, cut to 3",
            {"graph": _erdos_renyi(0.5), "threshold": _linear(0, 5)},
        ),
    ]


def _impossible_guards() -> list[tuple[str, Case]]:
    active: Case = {"guard": "active", "charter": sample("charter")}
    return [
        ("curious with a charter", {"charter": sample("charter")}),
        ("active without a charter", {"guard": "active"}),
        ("active, charter empty", {"guard": "active", "charter": b""}),
        ("active, charter of 31 bytes", {"guard": "active", "charter": sample("charter", 31)}),
        ("active, charter of 33 bytes", {"guard": "active", "charter": sample("charter", 33)}),
        ("active with thin masks, erdos-renyi", {**active, "graph": _erdos_renyi(0.5, 0.5)}),
        ("active with thin masks, harary", {**active, "graph": _harary(6, 4)}),
        ("active with thin masks, complete", {**active, "graph": _complete(None, 4)}),
        ("active with thin masks by chance", {**active, "graph": _complete(0.5)}),
    ]


def _erdos_renyi(p: float, mask_p: float | None = None) -> Case:
    return {"type": "erdos-renyi", "p": p, "mask_p": mask_p}


def _harary(degree: int, mask_degree: int | None = None) -> Case:
    return {"type": "harary", "degree": degree, "mask_degree": mask_degree}


def _linear(slope: int, base: int) -> Case:
    return {"type": "linear", "slope": slope, "base": base}


def _complete(mask_p: float | None = None, mask_degree: int | None = None) -> Case:
    return {"type": "complete", "mask_p": mask_p, "mask_degree": mask_degree}


def _impossible(reason: str, change: Case) -> Case:
    values = {**fields(configurations()["defaults"]), **change}
    return {"reason": reason, "fields": values, "encoding": _map(values), **ERROR}
