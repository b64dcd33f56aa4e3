"""When an exchange closes: never before everyone or enough have answered, and always in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import ConfigError
from ccesa.policy import Policy

COUNTS = st.integers(0, 200)


@given(asked=COUNTS, answered=COUNTS, minimum=COUNTS, vectors=st.booleans(), seconds=st.floats(0, 10_000))
def test_an_exchange_closes_when_it_should_and_no_sooner(asked, answered, minimum, vectors, seconds):
    policy = Policy(enough=0.8, after=5, deadline=20, vector_after=50, vector_deadline=200)
    answered = min(answered, asked)
    closes = not policy.stays_open(asked=asked, answered=answered, minimum=minimum, seconds=seconds, vectors=vectors)
    after, deadline = (50, 200) if vectors else (5, 20)
    if answered == asked or seconds >= 2 * deadline:
        assert closes  # nothing hangs
    elif answered < minimum or seconds < after:
        assert not closes
    elif seconds >= deadline:
        assert closes
    else:
        assert closes == (10 * answered >= 8 * asked)


@given(asked=COUNTS, answered=COUNTS, minimum=COUNTS, seconds=st.floats(0, 1000), more=st.floats(0, 1000))
def test_an_exchange_that_nobody_else_answers_closes_when_it_was_said_to(asked, answered, minimum, seconds, more):
    policy = Policy()
    given = {"asked": asked, "answered": answered, "minimum": minimum, "vectors": False}
    now, later = (policy.stays_open(seconds=passed, **given) for passed in (seconds, seconds + more))
    assert later == pytest.approx(max(now - more, 0.0), abs=1e-9)


def test_a_fraction_of_a_number_is_not_rounded_up_by_mistake():
    """0.55 * 100 is more than 55 as a float."""
    given = {"asked": 100, "minimum": 3, "seconds": 20.0, "vectors": False}
    assert Policy(enough=0.55).stays_open(answered=55, **given) == 0
    assert Policy(enough=0.55).stays_open(answered=54, **given) == 40


def test_everyone_is_waited_for_until_one_deadline():
    policy = Policy.wait_for_all(5.0)
    for vectors in (False, True):
        given = {"asked": 10, "minimum": 3, "vectors": vectors}
        assert policy.stays_open(answered=9, seconds=4.0, **given) == 1
        assert policy.stays_open(answered=9, seconds=5.0, **given) == 0
        assert policy.stays_open(answered=10, seconds=0.0, **given) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enough": 0}, "enough"),
        ({"enough": 1.1}, "fraction"),
        ({"after": -1}, "after"),
        ({"deadline": float("nan")}, "deadline"),
        ({"after": 100}, "deadline must not be shorter than after"),
        ({"vector_deadline": 1}, "nor vector_deadline than vector_after"),
        ({"faults": 0}, "faults"),
    ],
)
def test_what_cannot_be_a_policy(given, said):
    with pytest.raises(ConfigError, match=said):
        Policy(**given)
