"""ReplyTerms of a round in Flower: refused, or one encoding, and a length that can be computed."""

import numpy as np

from ccesa.errors import ConfigError, MalformedMessage
from ccesa.flower.both.packing import packing_for
from ccesa.flower.both.terms import Arrays, ReplyTerms

MODEL: Arrays = {"w": np.zeros((2, 3), np.float32), "steps": np.zeros((), np.int64)}


def one(data: bytes) -> None:
    try:
        terms = ReplyTerms.decode(data)
    except (MalformedMessage, ConfigError):
        return
    if terms.encode() != data:
        raise AssertionError("terms with two encodings")
    try:
        length = packing_for(terms, MODEL).length
    except ConfigError:
        return
    room = length * terms.fields.per_word
    if terms.mechanism is not None:
        if room < terms.mechanism.dimension:
            raise AssertionError("terms without room for the noise")
    elif room <= sum(value.size for value in MODEL.values()) * (terms.kind == "train"):
        raise AssertionError("terms without room for the weight")
