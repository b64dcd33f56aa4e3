"""What different survivors for different helpers open: all of it, for few members."""

from dataclasses import replace

import pytest

from attacks.helper_search import SETTINGS, search, smallest


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_h2_nothing_opens_but_a_whole_sum_that_all_helpers_agree_on(setting):
    choices, opened, fewest = search(setting)
    assert choices == len(setting.groups) ** setting.helpers
    assert opened == len(setting.groups)
    assert fewest == setting.promised


@pytest.mark.parametrize("setting", SETTINGS[1:3], ids=str)
def test_h2_if_helpers_had_the_same_masks_a_member_would_open(setting):
    assert search(replace(setting, own_masks=False))[2] == 1


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=str)
def test_h1_if_helpers_answered_two_questions_a_member_would_open(setting):
    assert search(replace(setting, questions=2))[2] == 1


def test_a_sum_that_all_helpers_agree_on_is_opened_whole():
    setting, group = SETTINGS[2], frozenset({0, 2, 3})
    assert smallest(setting, [(0, group), (1, group)]) == 3
    assert smallest(setting, [(0, group), (1, group - {3})]) is None
