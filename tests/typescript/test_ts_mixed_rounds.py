"""One round, clients in Python, Node and Chromium, dropouts at every step: the sum is the plain one."""

import pytest

from mixed import KINDS, MixedRound, Scene, is_exact
from mixed_assisted import HELPED_KINDS, LENGTHS, AssistedScene, MixedAssistedRound
from runners import Runner

#: In the default tests, so that every guard, graph, word size and step of a dropout is among them.
FEW, MANY = 20, 240
#: The same of rounds with helpers.
FEW_HELPED, MANY_HELPED = 12, 60


def plays(number: int, node: Runner, chromium: Runner) -> None:
    scene = Scene(number)
    assert is_exact(MixedRound(scene, [None, node, chromium]), scene.gone), KINDS[number % len(KINDS)]


@pytest.mark.parametrize("number", range(FEW))
def test_a_mixed_round_gives_the_plain_sum(number: int, node: Runner, chromium: Runner):
    plays(number, node, chromium)


@pytest.mark.typescript
@pytest.mark.parametrize("number", range(FEW, FEW + MANY))
def test_many_mixed_rounds_give_plain_sums(number: int, node: Runner, chromium: Runner):
    plays(number, node, chromium)


def plays_with_helpers(number: int, node: Runner, chromium: Runner) -> None:
    scene = AssistedScene(number)
    MixedAssistedRound(scene, [None, node, chromium]).play(scene.gone)


@pytest.mark.parametrize("number", range(FEW_HELPED))
def test_a_mixed_round_with_helpers_gives_the_plain_sum(number: int, node: Runner, chromium: Runner):
    plays_with_helpers(number, node, chromium)


@pytest.mark.typescript
@pytest.mark.parametrize("number", range(FEW_HELPED, FEW_HELPED + MANY_HELPED))
def test_many_mixed_rounds_with_helpers_give_plain_sums(number: int, node: Runner, chromium: Runner):
    plays_with_helpers(number, node, chromium)


def test_the_few_with_helpers_have_everything():
    few = [AssistedScene(number) for number in range(FEW_HELPED)]
    for place, all_of in enumerate(zip(*HELPED_KINDS, strict=True)):
        assert {HELPED_KINDS[scene.number % len(HELPED_KINDS)][place] for scene in few} == set(all_of)
    assert {scene.config.length for scene in few} == set(LENGTHS)
    assert {len(scene.gone) for scene in few} == {0, 1, 2}
    assert {scene.members_help for scene in few} == {False, True}


def test_the_few_have_everything():
    few = [Scene(number) for number in range(FEW)]
    for place, all_of in enumerate(zip(*KINDS, strict=True)):
        assert {KINDS[scene.number % len(KINDS)][place] for scene in few} == set(all_of)
    dropped = {(one.config.guard, step) for one in few for step in one.gone}
    assert {step for _, step in dropped} == {"advertise", "share", "accept", "mask", "confirm", "unmask"}
    assert {one.config.generator for one in few} == {"aes128-ctr", "chacha20"}
    assert {one.config.agreement for one in few} == {"x25519", "x25519-mlkem768"}
