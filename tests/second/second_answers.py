"""The second implementation, answering the questions of vectors/probes.py: refused or not, by which check.

``python tests/second/second_answers.py`` reads one question a line and writes one answer a line, as
``vectors/conformance.py --command`` wants it.
"""

import json
import sys

import second_assisted as assisted
import second_client as client
import second_config as config
import second_hybrid as hybrid
import second_lists as lists
import second_messages as parts
import second_noise as noise
import second_quantizer as quantizer
import second_replay as replay
import second_series as series
import second_statistics as statistics
from second import raw
from second_refusals import Refused, refuse


def answer(question):
    """Whether it is refused, with the names of error and check; None for what is no client's."""
    given = dict(question)
    ask = KINDS.get(given.pop("kind"))
    if ask is None:
        return None
    try:
        ask(given)
    except Refused as refusal:
        return {"refused": True, "error": refusal.error, "check": refusal.check}
    return {"refused": False}


def configuration(given):
    data = raw(given["encoding"]) + bytes(given.get("append_zeros", 0))
    config.configuration(data)


def proof(given):
    leaves = [raw(leaf) for leaf in given["leaves"]]
    top = parts.proven_top(given["size"], given["places"], leaves, raw(given["proof"]))
    if top != raw(given["top"]):
        refuse("W4.2", "FaultyServer")


def sealed_text(given):
    """With the key that it is for, or with the private key of its recipient."""
    ends = [given[name] for name in ("sender", "recipient")]
    both = [raw(given[name]) for name in ("sender_keys", "recipient_keys")]
    context, bound = raw(given["context"]), (given["masked"], raw(given["commitment"]))
    if "key" in given:
        key = raw(given["key"])
    else:
        key = client.one_time_key(raw(given["recipient_private"]), both[0][:32], context, *ends)
    opened = parts.unsealed(key, raw(given["sealed"]), client.associated_data(context, *ends, *both, *bound))
    parts.elements(opened)


def asked(found, given):
    """All that comes before may be refused; the last one counts."""
    for place, each in enumerate(given["asked"]):
        assisted.told(found, each)
        try:
            found.receive(raw(each["request"]))
        except Refused:
            if place == len(given["asked"]) - 1:
                raise


def of_many(given):
    found, request = replay.many_asked(given["party"], given["neighbours"])
    found.receive(request)


def quantized(given):
    made = quantizer.Quantizer(**given["settings"])
    made.encode(given["arrays"], quantizer.number(given["weight"]), given.get("draws"))


def noisy_vector(given):
    made = noise.Mechanism(given["mechanism"])
    made.encode(given["arrays"], given["shapes"], raw(given["context"]), raw(given["key"]))


def noisy_mean(given):
    made = noise.Mechanism(given["mechanism"])
    made.decode(raw(given["sum"]), given["survivors"], raw(given["context"]))


def draws(given):
    fine = [int(one) for one in given["fine"]]
    noise.draws_of(given["variance"], given["grid_bits"], fine, raw(given["key"]))


KINDS = {
    "message": lambda one: parts.message(raw(one["encoding"]), one["most"]),
    "ids": lambda one: parts.ids_of(raw(one["data"]), one["clients"]),
    "set": lambda one: parts.set_of(raw(one["data"]), one["clients"]),
    "configuration": configuration,
    "chartered configuration": lambda one: lists.chartered_configuration(raw(one["encoding"]), one["charter"]),
    "charter": lambda one: lists.charter(one["text"]),
    "list": lambda one: lists.admitted(one["text"]),
    "identity file": lambda one: lists.identity_file(one["file"] if "file" in one else one["text"]),
    "identity key": lambda one: lists.check_identity_key(raw(one["public"])),
    "signature": lambda one: lists.check_signature(*(raw(one[name]) for name in ("public", "signature", "text"))),
    "elements": lambda one: parts.elements(raw(one["data"])),
    "split": lambda one: parts.check_split(one["threshold"], one["holders"]),
    "public key": lambda one: parts.check_public_key(raw(one["public"])),
    "ml-kem key": lambda one: hybrid.check_kem_key(raw(one["public"])),
    "hybrid text": replay.opened_by,
    "proof": proof,
    "sealed text": sealed_text,
    "joining": assisted.joined,
    "many": of_many,
    "client": lambda one: asked(assisted.joined(one["party"]), one),
    "series": lambda one: asked(series.joined(one["series"], one["client"], assisted.joined), one),
    "quantizer": lambda one: quantizer.Quantizer(**one),
    "quantized": quantized,
    "mean": lambda one: quantizer.Quantizer(**one["settings"]).decode(raw(one["sum"])),
    "mechanism": noise.Mechanism,
    "table": lambda one: noise.check_table(one["variance"], one["grid_bits"]),
    "draws": draws,
    "noisy vector": noisy_vector,
    "noisy mean": noisy_mean,
    "counted": lambda one: statistics.numbers_of(one["schema"], one["records"]),
}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
