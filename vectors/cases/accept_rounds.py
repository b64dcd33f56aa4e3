"""accept_round.json and active_accept_round.json: complete rounds with the step *accept*, byte by byte."""

from typing import Any

from cases import active_rounds
from cases.active_rounds import ActivePlan, plan_of
from cases.common import Case, sample
from cases.rounds import RANDOMNESS, Plan, garbage, lying, play, wrong_commitment
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Harary

DESCRIPTION = (
    "Complete rounds with the step accept, in the form of round.json: with a dropout in each step, with "
    "sealed texts that do not open, a commitment that was changed, and false accusations."
)
ACTIVE_DESCRIPTION = (
    "Complete rounds with the step accept under the guard active, in the form of active_round.json: with a "
    "dropout in each of the six steps, and with accusations that leave clients out."
)
EACH_STEP = {4: "advertise", 1: "share", 7: "accept", 8: "mask", 6: "unmask"}
EACH_STEP_ACTIVE = EACH_STEP | {3: "confirm"}


def make() -> Case:
    rounds = [play(plan) for plan in plans()]
    return {"description": DESCRIPTION, "randomness": RANDOMNESS, "rounds": rounds}


def make_active() -> Case:
    rounds = [active_rounds.play(plan) for plan in active_plans()]
    return {"description": ACTIVE_DESCRIPTION, "randomness": RANDOMNESS, "rounds": rounds}


def plans() -> list[Plan]:
    small: dict[str, Any] = {"length": 2, "bits": 8, "accept": True}
    return [
        Plan(
            "harary, nested, number 300; one client drops in each of the five steps",
            _config("h 0", 11, number=300, length=3, graph=Harary(degree=6, mask_degree=4), accept=True),
            EACH_STEP,
            task=sample("task"),
        ),
        Plan(
            "complete; a client seals garbage for another, which costs the edge between them; a third drops",
            _config("g", 6, **small),
            {4: "mask"},
            tampers={("share", 2): garbage(0)},
        ),
        Plan(
            "complete; a commitment changes on its way: everyone accuses, and the dealer is left out",
            _config("c", 6, **small),
            tampers={("share", 2): wrong_commitment},
        ),
        Plan(
            "complete; holders to spare: an accusation leaves both ends with too few",
            _config("s", 6, **small),
            tampers={("accept", 0): lying(2)},
            dropout=0.3,
        ),
        Plan(
            "complete; too few clients are left after accusations",
            _config("t", 5, **small, min_survivors=4),
            tampers={("accept", 0): lying(1, 2), ("accept", 3): lying(1)},
        ),
    ]


def _config(name: str, clients: int, **options: Any) -> RoundConfig:
    return RoundConfig(series_id=sample(f"accept {name}"), clients=clients, **options)


def active_plans() -> list[ActivePlan]:
    return [
        plan_of(
            "harary; one client drops in each of the six steps",
            "accept 21",
            13,
            EACH_STEP_ACTIVE,
            length=2,
            bits=16,
            task=sample("task"),
            accept=True,
            graph=Harary(degree=8),
        ),
        plan_of(
            "complete; one is in two accusations and is left out alone, of two others both are",
            "matching",
            9,
            length=2,
            bits=8,
            accept=True,
            tampers={("share", 5): garbage(1, 3), ("accept", 0): lying(2)},
        ),
    ]
