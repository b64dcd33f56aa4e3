"""Rounds on a hostile network, each made of a seed, and a failing one cut short."""

import random
from collections import Counter
from collections.abc import Callable, Iterable

from adversary import Action, Setup, World, setup_from
from ccesa.protocol.steps import steps_of

MISCHIEF = (
    "deliver",
    "send",
    "tamper_request",
    "tamper_reply",
    "tamper_reply",
    "tamper_reply",
    "replay_to_client",
    "replay_to_server",
    "replay_to_server",
    "swap",
    "restart",
    "hop",
)


def drawn(seed: int) -> tuple[Setup, list[Action]]:
    """A configuration and what happens in it; some rounds see much mischief, some see only dropouts."""
    source = random.Random(seed)
    setup = setup_from(source.choice, seed)
    mischief, drops = source.choice([0, 0.25, 0.5, 1, 2]), source.choice([0, 0.03, 0.15])
    actions: list[Action] = []
    for _ in steps_of(setup):
        some: list[Action] = []
        while source.random() < mischief / (1 + mischief):
            some.append((source.choice(MISCHIEF), *(source.randrange(2**16) for _ in range(4))))
        gone = sum((source.random() < drops) << i for i in range(setup.clients))
        before = source.randrange(len(some) + 1)
        actions += [*some[:before], ("everyone", source.randrange(2**16), gone, 0, 0), *some[before:]]
        actions.append(("close", 0, 0, 0, 0))
    return setup, actions


def play(setup: Setup, actions: Iterable[Action]) -> Counter[str]:
    """One round from beginning to end; raises what went wrong."""
    world = World(setup)
    for action in actions:
        world.do(action)
    world.end()
    world.check()
    return world.counts


def shortest(actions: list[Action], fails: Callable[[list[Action]], bool]) -> list[Action]:
    """Leave out as many actions as possible, longer runs of them first, while it still fails."""
    size = len(actions)
    while size:
        first = 0
        while first < len(actions):
            fewer = actions[:first] + actions[first + size :]
            if fails(fewer):
                actions = fewer
            else:
                first += size
        size //= 2
    return actions


def play_seed(seed: int) -> Counter[str]:
    """The round of this seed; a failing one is reduced to what it takes, which can be pasted into a test."""
    setup, actions = drawn(seed)
    try:
        return play(setup, actions)
    except Exception as error:
        actions = shortest(actions, lambda fewer: _fails(setup, fewer))
        raise AssertionError(f"seed {seed}, {error!r}:\nplay({setup!r},\n     {actions!r})") from error


def _fails(setup: Setup, actions: list[Action]) -> bool:
    try:
        play(setup, actions)
    except Exception:
        return True
    return False
