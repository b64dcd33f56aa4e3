"""Statistics with noise: a record moves the centres by no more than the noise is made for."""

import hashlib
import math
from itertools import count

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, VectorError
from ccesa.privacy import DifferentialPrivacy, Ledger, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.privacy.quantizer import square
from ccesa.statistics import Category, Number, Schema
from ccesa.statistics import packing as noisy_words
from ccesa.statistics.packing import Scale, centres
from ccesa.statistics.tally import Tally, count_table
from ccesa.values.fields import Layout
from tables import rows_of, schemas

AGE = Number(name="age", lower=0, upper=120, measures=("count", "sum", "mean", "variance", "histogram"), edges=(18, 65))
WARD = Category(name="ward", values=("surgery", "medicine"))
SCHEMA = Schema(
    name="beds", least_group=1, privacy_unit="record", numbers=(AGE,), categories=(WARD,), group_by=("ward",)
)
PLAIN = msgspec.structs.replace(SCHEMA, privacy_unit="none")


def noise_for(schema: Schema, epsilon: float = 2.0, honest: int = 3, **others) -> Mechanism:
    asked = DifferentialPrivacy(epsilon=epsilon, delta=1e-6, rounds=3, norm=schema.norm, unit="record")
    told = {"clients": 5, "honest": honest, "dimension": schema.dimension, "field_bits": 64}
    return choose_mechanism(asked, **(told | others))


NOISE = noise_for(SCHEMA)


def seeded(name: str):
    """Random bytes that are the same in every run."""
    numbers = count()
    return lambda n: hashlib.shake_256(f"{name} {next(numbers)}".encode()).digest(n)


def beds(many: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [{"age": int(rng.integers(20, 90)), "ward": str(rng.choice(["surgery", "medicine"]))} for _ in range(many)]


# What a record can do


@settings(max_examples=100)
@given(st.data(), st.floats(0.5, 10), st.integers(1, 20))
def test_one_record_moves_the_centres_by_at_most_the_bound(data, epsilon, honest):
    schema = data.draw(schemas("record"))
    rows = data.draw(rows_of(schema).filter(bool))
    mechanism = noise_for(schema, epsilon, honest)
    with_it, without = (centres(count_table(schema, some), mechanism) for some in (rows, rows[:-1]))
    assert square(with_it - without) <= mechanism.bound**2


@settings(max_examples=30)
@given(schemas("record"), st.sampled_from(["lower", "upper"]))
def test_a_record_at_the_bounds_moves_every_quantity_by_its_share(schema, end):
    """So the bound is nearly reached, and noise is not much larger than it has to be."""
    mechanism = noise_for(schema)
    record = {one.name: getattr(one, end) for one in schema.numbers} | {
        one.name: one.values[0] for one in schema.categories
    }
    found = centres(count_table(schema, [record]), mechanism)
    share = Scale(schema, mechanism).share
    assert sorted(np.abs(found)[found != 0]) == [share] * len(schema.quantities)
    assert mechanism.bound / math.sqrt(len(schema.quantities)) - 1 < share <= mechanism.bound


@settings(max_examples=60)
@given(st.data())
def test_centres_are_the_numbers_themselves_but_for_half_a_step(data):
    schema = data.draw(schemas("record"))
    tally = count_table(schema, data.draw(rows_of(schema)))
    mechanism = noise_for(schema)
    scale = Scale(schema, mechanism)
    steps = iter(centres(tally, mechanism).tolist())
    exact = noisy_words._centred(schema, tally.sums)
    for one in schema.quantities:
        for number in exact[one.key]:
            assert abs(2 * next(steps) * one.largest - 2 * number * scale.share) <= one.largest
    back = noisy_words._uncentred(schema, exact)
    assert all(back[one.key] == tally.sums[one.key] for one in schema.quantities)


def test_suppression_would_let_one_record_do_more():
    """Which is why a schema with noise leaves no group out."""
    hidden = msgspec.structs.replace(PLAIN, least_group=5)
    four, five = (count_table(hidden, beds_of_one(many)) for many in (4, 5))
    moved = [Tally(SCHEMA, one.sums, one.records, 0) for one in (four, five)]
    before, after = (centres(one, NOISE) for one in moved)
    assert square(after - before) > NOISE.bound**2


def beds_of_one(many: int) -> list[dict]:
    return [{"age": 50, "ward": "surgery"}] * many


# What is drawn


def test_the_noise_in_a_sum_has_the_standard_deviation_that_it_says():
    rows = beds(300)
    random = seeded("variance")
    report = PLAIN.decode(PLAIN.encode(rows), 1)
    right = {group.key["ward"]: group for group in report.groups}
    found = [SCHEMA.decode(SCHEMA.encode(rows, NOISE, random), 1, NOISE) for _ in range(300)]
    for ward, group in right.items():
        same = [next(one for one in report.groups if one.key["ward"] == ward) for report in found]
        errors = np.array([one.records - group.records for one in same])
        assert np.std(errors) == pytest.approx(found[0].noise, rel=0.15)
        assert abs(np.mean(errors)) < 5 * found[0].noise / math.sqrt(len(errors))
        means = np.array([one.numbers["age"].mean for one in same])
        assert np.std(means) == pytest.approx(same[0].numbers["age"].noise, rel=0.25)
        assert np.mean(means) == pytest.approx(float(group.numbers["age"].mean), abs=0.5)


def test_with_many_records_everything_is_near_the_truth():
    rows = beds(20_000)
    found = SCHEMA.decode(SCHEMA.encode(rows, NOISE, seeded("near")), 1, NOISE)
    right = {one.key["ward"]: one for one in PLAIN.decode(PLAIN.encode(rows), 1).groups}
    for one in found.groups[:2]:
        told, true = one.numbers["age"], right[one.key["ward"]].numbers["age"]
        assert told.count == pytest.approx(true.count, abs=6 * found.noise)
        assert told.missing == pytest.approx(0, abs=9 * found.noise)
        assert told.clipped is None
        assert told.sum == pytest.approx(float(true.sum), abs=6 * 120 * found.noise)
        assert told.mean == pytest.approx(float(true.mean), abs=6 * told.noise)
        assert told.variance == pytest.approx(float(true.variance), rel=0.05)
        for bin_, same in zip(told.histogram, true.histogram, strict=True):
            assert bin_.count == pytest.approx(same.count, abs=6 * found.noise)
    assert {one.key["ward"] for one in found.groups} == {"surgery", "medicine", "other", "missing"}
    assert "every count has noise of +-" in str(found)


def test_nothing_is_divided_by_a_count_that_may_be_noise():
    empty = SCHEMA.decode(SCHEMA.encode([], NOISE, seeded("empty")), 1, NOISE)
    assert all(one.numbers["age"].mean is one.numbers["age"].variance is None for one in empty.groups)
    assert not any(one.numbers["age"].quantiles for one in empty.groups)
    assert any(one.records for one in empty.groups)


def test_sums_of_sites_add_up_and_wrap():
    random = seeded("sites")
    vectors = [SCHEMA.encode(beds(1000, seed), NOISE, random) for seed in range(5)]
    found = SCHEMA.decode(np.sum(vectors, axis=0, dtype=np.uint64), 5, NOISE)
    assert found.noise == pytest.approx(math.sqrt(5) * Scale(SCHEMA, NOISE).noise(SCHEMA.quantities[0], 1), rel=1e-9)
    total = sum(one.records for one in found.groups)
    assert total == pytest.approx(5000, abs=6 * math.sqrt(len(found.groups)) * found.noise)
    assert sum(int(one) >> 63 for one in vectors[0]) > 0  # negative ones


def test_two_vectors_of_one_table_have_noise_of_their_own():
    rows = beds(10)
    assert not np.array_equal(SCHEMA.encode(rows, NOISE), SCHEMA.encode(rows, NOISE))


# What is refused


def test_noise_and_statistics_go_together_or_not_at_all():
    with pytest.raises(ConfigError, match="statistics with noise need privacy_unit = record"):
        SCHEMA.encode([])
    with pytest.raises(ConfigError, match="statistics with noise need privacy_unit = record"):
        PLAIN.encode([], NOISE)
    with pytest.raises(ConfigError, match="statistics with noise need privacy_unit = record"):
        SCHEMA.decode(SCHEMA.encode([], NOISE), 1)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"unit": msgspec.UNSET}, "noise for this schema needs unit = record"),
        ({"dimension": SCHEMA.dimension - 1}, f"needs dimension = {SCHEMA.dimension}, not"),
        ({"norm": 1.0}, "noise for this schema needs norm = "),
        ({"field_bits": 32}, "noise for this schema needs field_bits = 64, not 32"),
    ],
)
def test_noise_for_something_else_is_refused(fields, match):
    other = msgspec.structs.replace(NOISE, **fields)
    for use in (lambda: SCHEMA.encode([], other), lambda: SCHEMA.decode(SCHEMA.encode([], NOISE), 1, other)):
        with pytest.raises(ConfigError, match=match):
            use()


def test_a_record_with_less_than_a_step_per_quantity_is_refused():
    tiny = msgspec.structs.replace(NOISE, bound=2)
    with pytest.raises(ConfigError, match="less than one step of the fine grid"):
        SCHEMA.encode([], tiny)


def test_sums_that_could_overflow_are_refused():
    """At the largest of everything: a vector is fine by itself, and so many sites are one too many."""
    many = 2**20
    large = msgspec.structs.replace(SCHEMA, max_records=2**30)
    asked = DifferentialPrivacy(epsilon=50.0, delta=0.5, rounds=1, norm=large.norm, unit="record")
    noise = choose_mechanism(asked, clients=many, honest=many, dimension=large.dimension, field_bits=64)
    scale = Scale(large, noise)
    most = (large.max_records * scale.share >> noise.grid_bits) + 2**20
    fit = (2**63 - 1) // most
    assert 1 < fit < many
    large.check_noise(noise, fit)
    with pytest.raises(ConfigError, match=f"sums of {fit + 1} sites could overflow"):
        large.check_noise(noise, fit + 1)
    at_most = {one.key: [large.max_records * one.largest] * (one.width * len(large.cells)) for one in large.quantities}
    assert int(np.abs(centres(Tally(large, at_most, 0, 0), noise)).max()) <= 2**62


def test_sums_with_noise_have_a_length_and_a_type():
    total = SCHEMA.encode([], NOISE)
    with pytest.raises(VectorError, match="expected a vector of shape"):
        SCHEMA.decode(total[:-1], 1, NOISE)
    with pytest.raises(VectorError, match="expected an array of uint64"):
        SCHEMA.decode(total.astype(np.int64), 1, NOISE)
    with pytest.raises(ConfigError, match="sites"):
        SCHEMA.decode(total, 0, NOISE)


def test_noise_that_hides_records_is_no_noise_for_models():
    with pytest.raises(ConfigError, match="this noise hides a record, not a client's whole model"):
        NoisyQuantizer(layout=Layout.of([np.zeros(NOISE.dimension)]), mechanism=NOISE)


@pytest.mark.parametrize("first", ["record", "client"])
def test_a_ledger_counts_records_or_clients_and_never_both(first):
    demand = DifferentialPrivacy(epsilon=2.0, delta=1e-6, rounds=3, norm=1.0)
    noise = {"record": NOISE, "client": choose_mechanism(demand, clients=5, honest=3, dimension=10)}
    ledger = Ledger.in_memory(epsilon=10.0, delta=1e-5)
    accounts = {unit: ledger.account(one) for unit, one in noise.items()}
    (second,) = noise.keys() - {first}
    accounts[first].charge(bytes(32), bytes(32))
    accounts[first].check()
    assert accounts[first].left() > 0
    assert accounts[second].left() == 0
    for use in (accounts[second].check, lambda: accounts[second].charge(bytes(32), bytes(32))):
        with pytest.raises(ConfigError, match="the two do not add up: keep a ledger for each"):
            use()
    assert len(ledger.charges()) == 1


def test_a_unit_is_a_record_or_nothing():
    with pytest.raises(ConfigError, match="unit must be record or left out, not 'patient'"):
        msgspec.structs.replace(NOISE, unit="patient")
    with pytest.raises(ConfigError, match="unit must be record or left out"):
        DifferentialPrivacy(epsilon=1, delta=1e-6, rounds=1, norm=1, unit="client")
    assert NOISE.demand.unit == "record"
    assert NOISE.digest != msgspec.structs.replace(NOISE, unit=msgspec.UNSET).digest
