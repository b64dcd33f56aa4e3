"""What can be opened for one task over a few attempts: all of it, on small complete graphs."""

import pytest

from attacks.attempt_search import SETTINGS, search, smallest

PLAIN = [one for one in SETTINGS if (one.attempts, one.parts) == (2, 1)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_combination_of_sums_covers_fewer_honest_clients_than_one_sum(setting):
    ways, fewest = search(setting)
    assert ways > 300
    assert fewest == setting.promised > 1


@pytest.mark.parametrize("setting", PLAIN, ids=str)
def test_releasing_once_is_not_enough_where_the_order_is_free(setting):
    """Two halves release two sums that differ by two clients."""
    assert search(setting, in_order=False)[1] == 2 < setting.promised


@pytest.mark.parametrize("setting", PLAIN, ids=str)
def test_an_order_is_not_enough_where_shares_are_released_again(setting):
    assert search(setting, once=False, in_order=False)[1] == 1


def test_a_combination_may_cover_fewer_than_each_sum():
    """All are in both sums but two, one of which is in each; everyone counts as releasing."""
    (setting, *_) = SETTINGS
    both = [((1, 1), frozenset({0, 1}))] * 4
    assert smallest(setting, [*both, ((1, 0), frozenset({0})), ((0, 1), frozenset({1}))]) == 2
    assert smallest(setting, [((1, 1), frozenset())] * 6) is None
