"""Whom to blame: k liars cost at most k honest clients, and no liar that lies gets away."""

from hypothesis import given
from hypothesis import strategies as st

from ccesa.service.hub.agenda import find_blamed

CLIENTS = 12


@st.composite
def lies(draw):
    """Liars, and pairs that each have one in them."""
    liars = draw(st.sets(st.integers(0, CLIENTS - 1), max_size=4))
    pairs = draw(st.lists(st.tuples(st.sampled_from(sorted(liars) or [0]), st.integers(0, CLIENTS - 1)), max_size=30))
    return liars, [(one, other) for one, other in pairs if liars and one != other]


@given(lies())
def test_liars_cost_no_more_honest_clients_than_they_are(told):
    liars, pairs = told
    assert len(find_blamed(pairs, None) - liars) <= len(liars)
    assert len(find_blamed(pairs, len(liars)) - liars) <= len(liars)


@given(lies())
def test_every_pair_has_somebody_to_blame(told):
    _, pairs = told
    for around in (None, 4):
        found = find_blamed(pairs, around)
        assert all(found & set(pair) for pair in pairs)


def test_one_liar_cannot_have_its_neighbours_blamed():
    pairs = [(3, other) for other in range(3)] + [(3, other) for other in range(4, 10)]
    assert find_blamed(pairs, 1) == {3}
    assert len(find_blamed(pairs, None)) == 2
    assert find_blamed([], 1) == set()
