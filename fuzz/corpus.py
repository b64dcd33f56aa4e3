"""The committed inputs to start from, made of the vectors and of rounds: python -m fuzz.corpus."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from attacks.hostile import HostileRound
from ccesa.agreement.charter import Learning
from ccesa.flower.both.terms import ReplyTerms
from ccesa.helper_keys import HelperKey
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.protocol import envelope, suspended
from ccesa.protocol import messages as m
from ccesa.wire import encode
from fuzz import assisted_stage, series_stage, stage
from fuzz.harnesses import CORPUS
from fuzz.quantized import ARRAYS, QUANTIZERS

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "messages.json"
#: Of the bad cases of the vectors one in so many: each has one thing wrong, and mutation finds the rest.
EVERY = 5


def seeds() -> dict[str, dict[str, bytes]]:
    """For each harness its inputs by name."""
    vectors = json.loads(VECTORS.read_text())
    requests, replies, messages = {}, {}, {}
    for index, place in enumerate(stage.PLACES):
        stand = stage.stand(place)
        name, request = str(place), stand.requests[0]
        reply = stage.new_stand(place).clients[0].receive(request)
        requests[name], replies[name] = bytes([index]) + request, bytes([index]) + reply
        messages[f"{name}-request"], messages[f"{name}-reply"] = request, reply
        if m.Complaint in stand.server.step.replies or m.AcceptReply in stand.server.step.replies:
            said = _accusing(stand)
            replies[f"{name}-accusing"] = bytes([index]) + said
            messages[f"{name}-accusing"] = said
    messages |= assisted_stage.every_message()
    messages |= _bad(vectors["bad_messages"])
    configurations = {
        f"{place:02}": bytes.fromhex(case["encoding"]) for place, case in enumerate(vectors["configurations"])
    }
    configurations["active"] = stage.configuration("active", accept=False).encode()
    configurations |= _bad(vectors["bad_configurations"])
    return {
        "messages": messages,
        "configuration": configurations,
        "requests": requests,
        "replies": replies,
        "envelopes": _envelopes(),
        "admission": _lists(),
        "charter": _charters(),
        "identity": _identities(),
        "packed": _packed(),
        "quantized": _sums(),
        "suspended": _sleepers(),
        "terms": _terms(),
        "assisted_requests": _assisted_requests(),
        "assisted_replies": _assisted_replies(),
        "helper_keys": _keys(),
    }


def _accusing(stand: HostileRound) -> bytes:
    """Of the first two whose shares client 0 was sent."""
    near = np.array(stand.clients[0]._state.near.neighbours[:2])
    head: dict[str, Any] = {"context": stand.server.context, "client": 0, "accused": m.pack_ids(near)}
    if stand.server.step.reply is m.AcceptReply:
        return m.AcceptReply(**head, deposits=b"").encode()
    return m.Complaint(**head).encode()


def _envelopes() -> dict[str, bytes]:
    """What each exchange of a short series has for a client; and envelopes that are none."""
    found = {}
    for index, (guard, exchange) in enumerate(series_stage.PLACES):
        requests, _ = series_stage.played(guard, exchange)
        found[f"{guard}-{exchange}"] = bytes([index]) + requests[0]
    last = len(series_stage.PLACES) - 1
    messages = envelope.unpack(found[f"active-{series_stage.EXCHANGES - 1}"][1:])
    return found | {
        "over": bytes([last]),
        "half": bytes([last]) + bytes(messages[0])[:20],
        "twice": bytes([last]) + envelope.pack([messages[0], messages[0]]),
        "turned": bytes([last]) + envelope.pack(reversed(messages)),
        "empty-message": bytes([last]) + bytes(8),
        "too-long": bytes([last]) + b"\xff" * 8 + bytes(messages[0]),
    }


def _sleepers() -> dict[str, bytes]:
    """One client before each step, with a nonce that does not change."""
    found = {}
    for index, place in enumerate(stage.PLACES):
        saved = suspended.decode(stage.new_stand(place).clients[0].suspend(), suspended.SavedClient)
        body = suspended.encode(msgspec.structs.replace(saved, nonce=bytes(16)))[32:]
        found[str(place)] = bytes([index]) + body
    return found


def _terms() -> dict[str, bytes]:
    plain = ReplyTerms(
        message_type="train",
        clients=9,
        clip=2.0,
        metric_clip=1e6,
        field_bits=32,
        max_weight=65536.0,
        weighted_by="num-examples",
        metric_slots=2,
        counters=["steps"],
    )
    demand = DifferentialPrivacy(epsilon=3.0, delta=1e-6, rounds=10, norm=1.0)
    noise = choose_mechanism(demand, clients=9, honest=7, dimension=6)
    others: dict[str, dict[str, object]] = {
        "evaluate": {"message_type": "evaluate", "counters": []},
        "fields-8": {"field_bits": 8},
        "fields-65": {"field_bits": 65},
        "many-clients": {"clients": 2**31, "field_bits": 64},
        "too-many-clients": {"clients": 2**40},
        "no-slots": {"metric_slots": 0},
        "named": {"metrics": ["=loss", "+per-class"]},
        "many-slots": {"metric_slots": 2**40},
        "tiny-weight": {"max_weight": 5e-324},
        "no-name": {"weighted_by": ""},
        "noise": {"privacy": noise},
        "noisy-evaluation": {"message_type": "evaluate", "metrics": ["=f1", "=loss"], "privacy": noise},
    }
    found = {name: msgspec.structs.replace(plain, **changes) for name, changes in others.items()}
    return {"plain": plain.encode()} | {name: terms.encode() for name, terms in found.items()}


def _bad(cases: list[dict[str, str]]) -> dict[str, bytes]:
    found = {f"bad-{place:03}": bytes.fromhex(case["encoding"]) for place, case in enumerate(cases[::EVERY])}
    return {name: data for name, data in found.items() if len(data) < 1024}


def _lists() -> dict[str, bytes]:
    text = str(stage.CHARTER.admission)
    first = text.splitlines()[0]
    return {
        "plain": text.encode(),
        "comments": f"# all of us\n\n  {first}  cardiology, since March\t\n#\n".encode(),
        "twice": f"{first}\n{first}\n".encode(),
        "other-name": f"{first}\nanother {first.split()[1]}\n".encode(),
        "separators": f"a\u2028b\x1f\x85é {base64.b64encode(bytes(32)).decode()}\r\n".encode(),
        "no-key": b"hospital-a\n",
        "short-key": b"hospital-a Zm9vYmFy\n",
        "no-text": b"\xff\xfe" + first.encode(),
        "empty": b"",
    }


def _charters() -> dict[str, bytes]:
    text = str(stage.CHARTER)
    learning = msgspec.structs.replace(stage.CHARTER, bits=64, learning=Learning(metrics=("loss",), counters=("n",)))
    return {
        "plain": text.encode(),
        "learning": str(learning).encode(),
        "date": text.replace("expires = 9007199254740991", "expires = 2030-01-31").encode(),
        "local-time": text.replace("expires = 9007199254740991", "expires = 2030-01-31T12:00:00").encode(),
        "erdos-renyi": text.replace('"harary"\ndegree = 4', '"erdos-renyi"\np = 0.5').encode(),
        "twice": text.replace("client-1", "client-0").encode(),
        "unknown-key": f"{text}more = 1\n".encode(),
        "not-toml": b"serial = \xff",
        "empty": b"",
        **_charters_with_helpers(),
    }


def _charters_with_helpers() -> dict[str, bytes]:
    text = str(assisted_stage.CHARTER)
    return {
        "helpers": text.encode(),
        "helpers-and-graph": text.replace("colluders", 'graph = "complete"\ncolluders').encode(),
        "too-few-honest": text.replace("colluders = 0", "colluders = 2").encode(),
        "member-that-helps": text.replace("helper-0", "client-0").encode(),
        "one-helper": text.replace("helper-1", "helper-0").encode(),
    }


def _assisted_requests() -> dict[str, bytes]:
    """Each honest request at each place of a helper, and what is like it."""
    found, requests = {}, assisted_stage.requests()
    for index, place in enumerate(assisted_stage.REQUESTS):
        found[place] = bytes([index]) + requests[place]
    last = len(assisted_stage.REQUESTS) - 1
    question: Any = m.decode(requests["unmask"], len(requests["unmask"]))
    size = m.record_bytes(assisted_stage.CONFIG.agreement, assisted_stage.HELPERS)
    fewer = msgspec.structs.replace(question, members=question.members[4:], records=question.records[size:])
    return found | {
        "fewer": bytes([3]) + fewer.encode(),
        "fewer-again": bytes([4]) + fewer.encode(),
        "early": bytes([1]) + requests["unmask"],
        "turned": bytes([last]) + envelope.pack([requests["unmask"], requests["key"]]),
        "over": bytes([last]),
    }


def _assisted_replies() -> dict[str, bytes]:
    stands = {place: assisted_stage.new_stand(place).reply for place in assisted_stage.REPLIES}
    found = {place: bytes([index]) + reply for index, (place, reply) in enumerate(stands.items())}
    late = {f"{place}-late": bytes([3]) + reply for place, reply in stands.items() if place != "unmask"}
    return found | late


def _keys() -> dict[str, bytes]:
    good = encode(HelperKey(not_after=1, secret=bytes(32)))
    return {
        "key": good,
        "hybrid": encode(HelperKey(not_after=2**40, secret=bytes(96))),
        "answer": encode(HelperKey(not_after=1, question=bytes(32), answer=b"answer")),
        "version": good[:-1] + b"\2",
        "short": good[:-1],
        "more": good + b"\0",
        "empty": b"",
    }


def _identities() -> dict[str, bytes]:
    good = b"ccesa-identity-1 " + base64.b64encode(bytes(range(32)))
    return {
        "plain": good + b"\n",
        "no-end": good,
        "more": good + b" more",
        "spaces": good.replace(b" ", b"\n \t") + b" " * 300,
        "other-bits": good[:-2] + bytes([good[-2] + 1]) + b"=\n",
        "short": good[:-4],
        "version": good.replace(b"-1", b"-2"),
        "empty": b"",
    }


def _packed() -> dict[str, bytes]:
    return {
        "ids": bytes([0, 9]) + np.array([0, 3, 9], "<u4").tobytes(),
        "ids-twice": bytes([0, 9]) + np.array([3, 3], "<u4").tobytes(),
        "set": bytes([1, 9]) + b"\xff\x03",
        "set-beyond": bytes([1, 9]) + b"\xff\x07",
        "elements": bytes([2, 0]) + np.array([0, 1, 65520], "<u2").tobytes(),
        "elements-outside": bytes([2, 0]) + np.array([0, 65521], "<u2").tobytes(),
        "words": bytes([3, 3]) + bytes(range(16)),
        "proof": bytes([4, 8]) + bytes(32 * 3),
        "proof-full": bytes([4, 255]) + b"\xff" * 32,
    }


def _sums() -> dict[str, bytes]:
    values = {name: np.ones_like(array) for name, array in ARRAYS.items()}
    found = {}
    for place, quantizer in enumerate(QUANTIZERS):
        vector = quantizer.encode(values, rng=np.random.default_rng(0)).vector
        found[f"sum-{quantizer.field_bits}"] = bytes([place]) + vector.tobytes()
        found[f"most-{quantizer.field_bits}"] = bytes([place]) + b"\xff" * vector.nbytes
    # One unit of weight in the field behind a value: with the largest clip a mean that no float64 holds.
    found["too-large"] = bytes([2]) + bytes(8) + (2**30 + 2**48).to_bytes(8, "little") + bytes(8)
    return found


def main() -> None:
    for harness, inputs in seeds().items():
        folder = CORPUS / harness
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for name, data in inputs.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
