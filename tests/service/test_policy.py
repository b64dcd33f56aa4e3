"""When an exchange closes: never before everyone or enough have answered, and always in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import ConfigError
from ccesa.service.policy import Policy

COUNTS = st.integers(0, 200)


@given(asked=COUNTS, answered=COUNTS, least=COUNTS, vectors=st.booleans(), seconds=st.floats(0, 10_000))
def test_an_exchange_closes_when_it_should_and_no_sooner(asked, answered, least, vectors, seconds):
    policy = Policy(enough=0.8, after=5, deadline=20, vector_after=50, vector_deadline=200)
    answered = min(answered, asked)
    closes = policy.closes(asked=asked, answered=answered, least=least, seconds=seconds, vectors=vectors)
    after, deadline = (50, 200) if vectors else (5, 20)
    if answered == asked or seconds >= 2 * deadline:
        assert closes  # nothing hangs
    elif answered < least or seconds < after:
        assert not closes
    elif seconds >= deadline:
        assert closes
    else:
        assert closes == (answered >= 0.8 * asked)


@given(asked=COUNTS, answered=COUNTS, least=COUNTS, seconds=st.floats(0, 1000), more=st.floats(0, 1000))
def test_what_closes_now_closes_later(asked, answered, least, seconds, more):
    policy = Policy()
    told = {"asked": asked, "answered": answered, "least": least, "vectors": False}
    if policy.closes(seconds=seconds, **told):
        assert policy.closes(seconds=seconds + more, **told)


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
