"""Participants in TypeScript and in Python at one hub, which is a process of its own."""

import pytest

from series_rounds import GUARDS
from sites import Hub, sites

EVERYONE = tuple(range(6))


@pytest.mark.parametrize("guard", GUARDS)
def test_sites_in_node_and_in_python_are_in_every_sum(guard, tmp_path):
    with Hub(folder=tmp_path, guard=guard).running() as hub, sites(hub, [0, 2, 3], results=True) as made:
        ends = [site.ended() for site in made.values()]
    assert ends == [{"event": "ended", "with": "over"}] * 3, {c: s.events[-8:] for c, s in made.items()}
    assert hub.survivors() == [EVERYONE] * 2
