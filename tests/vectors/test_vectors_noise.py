"""noise.json, by the package and by the second implementation."""

import numpy as np
import pytest

from ccesa import wire, words
from ccesa.privacy import Mechanism, NoisyQuantizer
from ccesa.privacy.quantizer import Noise, rotate, unrotate
from ccesa.privacy.table import tables
from second import raw
from second_noise import Mechanism as SecondMechanism
from second_noise import digest_of, draws_of, passes, rotated, row_of, table_of, unrotated
from second_refusals import Refused
from vector_files import cases, load, refused

MECHANISMS = load("noise", "mechanisms")
OUTCOMES = {"gives", "error", "check"}


def number(value):
    if isinstance(value, list):
        return [number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def fields_of(case):
    return {name: number(value) for name, value in case.items() if name not in OUTCOMES}


def close(values):
    return pytest.approx(values, rel=1e-8, abs=1e-8)


each_mechanism = pytest.mark.parametrize("case", MECHANISMS, ids=[str(k) for k in range(len(MECHANISMS))])


@each_mechanism
def test_mechanism(case):
    if "error" in case:
        with refused(case["error"]):
            Mechanism(**fields_of(case))
        return
    made, due = Mechanism(**fields_of(case)), case["gives"]
    assert wire.encode(made).hex() == due["encoding"]
    assert (made.digest.hex(), made.length) == (due["digest"], due["length"])
    assert (made.certify(), made.noise(made.honest)) == close((due["epsilon"], due["noise"]))


@each_mechanism
def test_mechanism_a_second_time(case):
    if "error" in case:
        with pytest.raises(Refused, match=case["error"]):
            SecondMechanism(fields_of(case))
        return
    made, due = SecondMechanism(fields_of(case)), case["gives"]
    assert made.encoding().hex() == due["encoding"]
    assert (made.digest().hex(), made.length) == (due["digest"], due["length"])
    assert (made.epsilon(), made.noise(case["honest"])) == pytest.approx((due["epsilon"], due["noise"]), rel=1e-6)


@cases("noise", "tables", "variance", "grid_bits")
def test_table(case):
    given = case["variance"], case["grid_bits"]
    if "error" in case:
        with refused(case["error"]):
            tables(*given)
        with pytest.raises(Refused, match=case["error"]):
            table_of(*given)
        return
    made = tables(*given)
    assert made.first.tolist() == case["first"]
    assert np.diff(made.starts).tolist() == case["lengths"]
    for row in case["rows"]:
        here = slice(*made.starts[row["phase"] : row["phase"] + 2])
        found = [(int(high) << 64) + int(low) for high, low in zip(made.high[here], made.low[here], strict=True)]
        assert [one.to_bytes(16, "little").hex() for one in found] == row["thresholds"]
        first, second = row_of(*given, row["phase"])
        assert (first, second) == (case["first"][row["phase"]], found)


@cases("noise", "tables", "variance", "grid_bits")
def test_whole_table_a_second_time(case):
    if "error" in case:
        return
    table = table_of(case["variance"], case["grid_bits"])
    assert [first for first, _ in table] == case["first"]
    assert [len(row) for _, row in table] == case["lengths"]
    assert digest_of(table).hex() == case["digest"]


@cases("noise", "rotations", "name")
def test_rotation(case):
    context, values = raw(case["context"]), case["values"]
    assert rotate(np.array(values), context).tolist() == close(case["rotated"])
    assert unrotate(np.array(case["rotated"]), context).tolist() == close(values)
    assert rotated(values, context) == close(case["rotated"])
    assert unrotated(case["rotated"], context) == close(values)
    for (_, signs), bits in zip(passes(len(values), context), case["signs"], strict=True):
        found = raw(bits)
        assert signs == [1 - 2 * (found[k // 8] >> k % 8 & 1) for k in range(len(signs))]


@cases("noise", "draws", "key")
def test_draws(case):
    given, fine = (case["variance"], case["grid_bits"]), [int(one) for one in case["fine"]]
    if "error" in case:
        with refused(case["error"]):
            Noise(*given).sample(np.array(fine, np.int64), nobody)
        with pytest.raises(Refused, match=case["error"]):
            draws_of(*given, fine, raw(case["key"]))
        return
    drawn = [int(one) for one in case["drawn"]]
    found = Noise(*given).sample(np.array(fine, np.int64), lambda count: raw(case["key"])[:count])
    assert found.tolist() == drawn
    assert draws_of(*given, fine, raw(case["key"])) == drawn


def nobody(count):
    raise LookupError("randomness was asked for")


@cases("noise", "encoded", "name")
def test_words_of_a_client(case):
    fields, context = fields_of(MECHANISMS[case["mechanism"]]), raw(case["context"])
    made = NoisyQuantizer.for_model([np.zeros(shape) for shape in case["shapes"]], Mechanism(**fields))
    arrays = [np.array(number(one), np.float64) for one in case["arrays"]]
    if "error" in case:
        with refused(case["error"]):
            made.encode(arrays, context, nobody)
        with pytest.raises(Refused, match=case["error"]):
            SecondMechanism(fields).encode(number(case["arrays"]), case["shapes"], context, raw(case["key"]))
        return
    found = made.encode(arrays, context, lambda count: raw(case["key"])[:count])
    fine, _ = made._on_grid(made.layout.flatten(arrays), context)
    assert fine.tolist() == case["fine"]
    assert (found.vector.tobytes().hex(), found.clipped) == (case["words"], case["clipped"])
    second = SecondMechanism(fields).encode(case["arrays"], case["shapes"], context, raw(case["key"]))
    assert second == (case["fine"], case["clipped"], raw(case["words"]))


@cases("noise", "decoded", "name")
def test_mean_of_a_sum(case):
    fields, context = fields_of(MECHANISMS[case["mechanism"]]), raw(case["context"])
    made = NoisyQuantizer.for_model([np.zeros(fields["dimension"])], Mechanism(**fields))
    if "error" in case:
        with refused(case["error"]):
            made.decode(words.from_bytes(raw(case["sum"]), 64), case["survivors"], context)
        with pytest.raises(Refused, match=case["error"]):
            SecondMechanism(fields).decode(raw(case["sum"]), case["survivors"], context)
        return
    found = made.decode(words.from_bytes(raw(case["sum"]), 64), case["survivors"], context)
    assert found.arrays[0].tolist() == close(case["mean"])
    assert found.weight == case["survivors"]
    assert SecondMechanism(fields).decode(raw(case["sum"]), case["survivors"], context) == close(case["mean"])
