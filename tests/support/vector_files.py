"""The vector files for the tests that read them: their cases, their errors by name, their configurations."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccesa import errors
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import merkle, primitives, shamir
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from second import raw

VECTORS = Path(__file__).resolve().parents[2] / "vectors"

ERRORS = {
    **{name: value for name, value in vars(errors).items() if isinstance(value, type)},
    "LowOrderKey": primitives.LowOrderKey,
    "BadKey": primitives.BadKey,
    "SealBroken": primitives.SealBroken,
    "BadSignature": primitives.BadSignature,
    "WrongProof": merkle.WrongProof,
    "TooManyWrong": shamir.TooManyWrong,
    "OutsideField": shamir.OutsideField,
    "ValueError": ValueError,
}
GRAPHS = {"erdos-renyi": ErdosRenyi, "harary": Harary, "complete": Complete}
THRESHOLDS = {"majority": Majority, "linear": Linear, "fixed": Fixed}


#: Fields of a configuration that are hexadecimal in the JSON.
BYTES = {"series_id", "charter"}


def load(file, key):
    return json.loads((VECTORS / f"{file}.json").read_text())[key]


def cases(file, key, *named_by):
    """Parametrize over the cases of one list, each under its name; of several files where there are some."""
    files = (file,) if isinstance(file, str) else file
    found = [case for one in files for case in load(one, key)]
    names = [" ".join(str(case[name]) for name in named_by) for case in found]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", found, ids=names)


@contextmanager
def refused(error):
    """The named class itself, not a subclass: a vector says exactly what happens."""
    with pytest.raises(ERRORS[error]) as caught:
        yield caught
    assert caught.type is ERRORS[error]


# Configurations as they stand in the JSON.


def values_of(fields):
    return {name: raw(value) if name in BYTES else value for name, value in fields.items()}


def part(table, values):
    values = dict(values)
    return table[values.pop("type")](**values)


def config_of(fields):
    values = values_of(fields)
    assert values.pop("type") == "round"
    graph, threshold = part(GRAPHS, values.pop("graph")), part(THRESHOLDS, values.pop("threshold"))
    return RoundConfig(**values, graph=graph, threshold=threshold)
