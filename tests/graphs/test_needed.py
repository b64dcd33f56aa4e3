"""How many have to be there: with that many a round succeeds, with one fewer it never does."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan import charters, plan
from rounds import CONFIGURE, Play, charter, charter_of, checked_outcome, configure

#: All that a charter or configuration says about it.
GRAPHS = st.one_of(st.just(Complete()), st.integers(1, 6).map(lambda half: Harary(degree=2 * half)))
THRESHOLDS = st.one_of(
    st.just(Majority()),
    st.integers(2, 13).map(lambda t: Fixed(t=t)),
    st.builds(Linear, slope=st.integers(0, 1024), base=st.integers(0, 8)),
)


def outcome(config, present: int) -> str:
    """What a round comes to in which so many are there, from the first step to the last."""
    return checked_outcome(Play(config), {"advertise": range(present, config.clients)})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CONFIGURE)), st.integers(3, 13), GRAPHS, THRESHOLDS, st.data())
def test_a_round_succeeds_with_that_many_and_fails_with_one_fewer(guard, clients, graph, threshold, data):
    least = data.draw(st.integers(2, clients), label="min_survivors")
    agreed = {"graph": graph, "threshold": threshold, "min_survivors": least}
    roster = data.draw(st.integers(3, clients), label="least_roster") if guard == "active" else 0
    if roster:
        agreed["least_roster"] = roster
    try:
        config = CONFIGURE[guard](clients, accept=True, **agreed)
    except ConfigError:
        assume(False)
    needed = charter_of(config).needed if guard == "active" else config.needed()
    assert outcome(config, needed) == "aggregate"
    assert outcome(config, needed - 1) != "aggregate"
    assert needed >= max(least, roster)


@pytest.mark.parametrize(("members", "needed"), [(6, 5), (8, 6)])
def test_what_the_planner_agrees_on(members, needed):
    """Its least roster is about privacy. Nobody counts for its own shares, so t neighbours are needed."""
    made = plan(members, 0.1, guard="active")
    agreed = charter(
        members,
        graph=made.graph,
        threshold=made.threshold,
        least_roster=made.least_roster,
        min_survivors=made.min_survivors,
        certificate=charters.state(made),
    )
    assert agreed.least_roster == 3
    assert made.threshold == Fixed(t=needed - 1)
    assert agreed.needed == needed
    config = agreed.config(length=5, accept=True)
    assert outcome(config, needed) == "aggregate"
    assert outcome(config, needed - 1) == "TooFewClients"


def test_where_degrees_vary_a_client_of_the_mean_degree_decides():
    config = configure(100, graph=ErdosRenyi(p=0.2), threshold=Fixed(t=15))
    assert config.needed() == 71  # 0.2 of 70 others are 14, and the client itself counts
    assert config.can_share(14)
    assert not config.can_share(13)


def test_a_roster_that_no_client_can_share_in_needs_everybody():
    config = configure(10, graph=ErdosRenyi(p=0.5), threshold=Fixed(t=7))
    assert config.needed() == 10
