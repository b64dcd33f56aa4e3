"""Every demand has a plan that keeps it, or an error whose options are kept when they are tried."""

import json
import pickle
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccesa.errors import ImpossiblePlan
from ccesa.graphs import Complete
from ccesa.plan import plan
from strategies import examples

demands = st.fixed_dictionaries(
    {
        "clients": st.one_of(st.integers(3, 60), st.integers(3, 1000)),
        "dropout": st.one_of(st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.3]), st.floats(0, 0.6)),
        "collusion": st.one_of(st.none(), st.sampled_from([0.0, 0.05, 0.1, 0.3]), st.floats(0, 0.7)),
        "guard": st.sampled_from(["curious", "active"]),
        "graph": st.sampled_from(["best", "harary", "complete"]),
        "reliability_bits": st.one_of(st.none(), st.sampled_from([10, 20, 40])),
        "exact_dropout": st.booleans(),
    }
)


def keeps_its_word(made, reliability_bits):
    assert made.shortfalls == ()
    asked = reliability_bits or 20
    assert made.reliability_bits == asked or any(f"{asked} bits is out of reach" in note for note in made.notes)
    assert made.reliability_bits >= 1
    assert reliability_bits in (None, made.reliability_bits)  # only a default gives way


@example({"clients": 30, "dropout": 0.1, "guard": "active", "reliability_bits": 20})
@example({"clients": 10, "dropout": 0.3, "guard": "active"})
@example({"clients": 4, "dropout": 0.1, "guard": "active"})
@example({"clients": 70_000, "dropout": 0.1, "graph": "complete"})
@example({"clients": 300, "dropout": 0.45, "graph": "erdos-renyi", "reliability_bits": 20})
@settings(deadline=None, max_examples=examples(12, 40))
@given(demands)
def test_what_an_error_names_does_work(demands):
    made, error = attempt(demands)
    if made is not None:
        keeps_its_word(made, demands.get("reliability_bits"))
        return
    assert "out of reach" in str(error) or "holders" in str(error)
    for option in error.options:
        tried, refused = attempt({**demands, **option})
        assert refused is None
        assert tried.shortfalls == ()
        for name, value in option.items():
            assert f"--{name.replace('_', '-')} {value}" in str(error)


SMALL = st.fixed_dictionaries(
    {
        "clients": st.integers(3, 12),
        "dropout": st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5]),
        "collusion": st.sampled_from([None, 0.0, 0.1, 0.34, 0.6]),
        "guard": st.sampled_from(["curious", "active"]),
        "reliability_bits": st.sampled_from([None, None, 1, 7, 20]),
        "privacy_bits": st.sampled_from([None, 10, 40]),
        "degree": st.sampled_from([None, None, 2, 4]),
    }
)


def printed(text):
    """What a text tells to say, one dict of arguments for each change, as somebody would type them."""
    for advice in re.findall(r"try ([^;]*)", text):
        for change in re.split(r", (?=--)| or (?=--)", advice):
            words, free, _ = change.partition("without --degree")
            said = re.findall(r"--(\S+) (\S+)", words)
            assert " ".join(f"--{name} {value}" for name, value in said) == words.strip()
            typed = {name.replace("-", "_"): value for name, value in said}
            numbers = {name: value if name == "graph" else json.loads(value) for name, value in typed.items()}
            yield numbers | ({"degree": None} if free else {})


@example({"clients": 3, "dropout": 0.1, "guard": "active"})
@example({"clients": 3, "dropout": 0.1, "guard": "active", "reliability_bits": 20})
@example({"clients": 12, "dropout": 0.1, "guard": "curious", "degree": 4})
@example({"clients": 12, "dropout": 0.01, "guard": "active", "degree": 2})
@settings(deadline=None, max_examples=examples(50, 150))
@given(SMALL)
def test_advice_to_small_federations_works_as_it_is_printed(demands):
    if (demands.get("degree") or 0) >= demands["clients"]:
        return
    made, error = attempt(demands)
    said = [str(error)] if made is None else made.notes
    for change in (change for text in said for change in printed(text)):
        # A note says what would reach the bits that have given way, an error what gives a plan at all.
        whole = {"reliability_bits": 20} if made is not None and demands.get("reliability_bits") is None else {}
        tried, refused = attempt({**demands, **whole, **change})
        assert refused is None
        assert tried.shortfalls == ()


def attempt(demands):
    try:
        return plan(length=1, **demands), None
    except ImpossiblePlan as error:
        return None, error


def without_none(demands):
    return {name: value for name, value in demands.items() if value is not None}


@pytest.mark.parametrize(("clients", "bits"), [(4, 1), (5, 1), (6, 3), (10, 6), (15, 8), (20, 11), (30, 18)])
def test_a_few_hospitals_get_the_complete_graph_and_a_note(clients, bits):
    made = plan(clients, 0.1, guard="active")
    assert made.graph == Complete()
    assert made.shortfalls == ()
    assert bits <= made.reliability_bits < bits + 1
    (note,) = made.notes
    assert "reliability of 20 bits is out of reach" in note
    assert "--clients" in note
    assert f"planned with {made.reliability_bits:.3g} bits on the complete graph" in note
    assert made.colluders == -(-clients // 10)
    assert made.least_honest == made.t - made.colluders > clients / 3


def test_too_few_hospitals_are_told_how_many_it_takes():
    """Four lose many rounds, and are enough; who asks for 20 bits is told what four have, too."""
    with pytest.raises(ImpossiblePlan, match=r"try --clients 4; or name helpers") as caught:
        plan(3, 0.1, guard="active")
    (option,) = caught.value.options
    assert plan(**{"dropout": 0.1, "guard": "active", **option}).notes
    with pytest.raises(ImpossiblePlan, match=r"--reliability-bits 1 --clients 4 or --clients 35; or name helpers"):
        plan(3, 0.1, guard="active", reliability_bits=20)


def test_options_travel_with_the_error():
    with pytest.raises(ImpossiblePlan) as caught:
        plan(30, 0.1, guard="active", reliability_bits=20)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert (
        again.options
        == caught.value.options
        == ({"reliability_bits": 18}, {"dropout": 0.092}, {"collusion": 0.033}, {"clients": 35})
    )
