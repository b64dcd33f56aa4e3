"""One round, clients in Python, Node and Chromium, dropouts at every step: the sum is the plain one."""

import pytest

from mixed import KINDS, MixedRound, Scene, is_exact
from runners import Runner

#: In the default tests, so that every guard, graph, word size and step of a dropout is among them.
FEW, MANY = 20, 240


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


def test_the_few_have_everything():
    few = [Scene(number) for number in range(FEW)]
    for place, all_of in enumerate(zip(*KINDS, strict=True)):
        assert {KINDS[scene.number % len(KINDS)][place] for scene in few} == set(all_of)
    dropped = {(one.config.guard, step) for one in few for step in one.gone}
    assert {step for _, step in dropped} == {"advertise", "share", "accept", "mask", "confirm", "unmask"}
    assert {one.config.generator for one in few} == {"aes128-ctr", "chacha20"}
    assert {one.config.agreement for one in few} == {"x25519", "x25519-mlkem768"}
