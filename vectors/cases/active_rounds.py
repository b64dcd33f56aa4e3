"""active_round.json: complete rounds under the guard ``active``, byte by byte."""

from dataclasses import dataclass
from typing import Any

from cases.charters import chartered, identity
from cases.common import Case, Stream, sample
from cases.rounds import RANDOMNESS, Plan, Tamper, contribution, garbage, outcome, recorder, seed, vector, wrong_share
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.graphs import ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.server import Server

DESCRIPTION = (
    "Complete rounds under the guard active, in the form of round.json, with each client's identity (the "
    "seed of its Ed25519 key) and the charter as text. Signatures need no randomness."
)
EACH_STEP = {4: "advertise", 1: "share", 8: "mask", 3: "confirm", 6: "unmask"}


@dataclass(frozen=True)
class ActivePlan(Plan):
    """A plan with its charter."""

    charter: Charter | None = None

    @property
    def agreed(self) -> Charter:
        if self.charter is None:
            raise LookupError("a round under active needs a charter")
        return self.charter

    def identity(self, client: int) -> Identity:
        return identity(self.name, client)


def plan_of(
    name: str,
    seed: str,
    clients: int,
    drops: dict[int, str] | None = None,
    *,
    length: int,
    task: bytes = m.NO_TASK,
    accept: bool = False,
    tampers: dict[tuple[str, int], Tamper] | None = None,
    **agreed: Any,
) -> ActivePlan:
    charter = chartered(name, clients, **agreed)
    config = charter.config(length=length, accept=accept, series_id=sample(f"active round {seed}"))
    return ActivePlan(name, config, drops or {}, tampers or {}, task, charter=charter)


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "randomness": RANDOMNESS,
        "rounds": [play(plan) for plan in [*plans_with_sum(), *_plans_without_sum()]],
    }


def plans_with_sum() -> list[ActivePlan]:
    return [
        plan_of(
            "harary; one client drops in each of the five steps",
            "harary 13",
            12,
            EACH_STEP,
            length=3,
            task=sample("task"),
            graph=Harary(degree=6),
            least_roster=10,
            min_survivors=5,
        ),
        plan_of(
            "erdos-renyi, linear threshold; one client drops in each of the five steps",
            "erdos-renyi 16",
            10,
            EACH_STEP,
            length=3,
            bits=16,
            graph=ErdosRenyi(p=0.9),
            threshold=Linear(slope=256, base=2),
            generator="chacha20",
        ),
        plan_of("complete; everyone stays", "three", 3, length=2, bits=64, threshold=Fixed(t=2)),
        plan_of(
            "complete; a client seals garbage for another, who complains and is left out",
            "garbage",
            6,
            length=3,
            bits=8,
            tampers={("share", 2): garbage(0)},
        ),
        plan_of(
            "complete; a wrong share is corrected",
            "wrong share",
            5,
            length=3,
            bits=8,
            task=sample("task"),
            tampers={("unmask", 0): wrong_share},
        ),
    ]


def _plans_without_sum() -> list[ActivePlan]:
    return [
        plan_of(
            "unreliable: three of five confirm, each has two neighbours that did and needs three",
            "unreliable",
            5,
            {0: "confirm", 4: "confirm"},
            length=2,
            bits=8,
        ),
        plan_of("too few clients confirm", "too few", 4, {2: "confirm"}, length=2, bits=8, min_survivors=4),
    ]


def client(plan: ActivePlan, number: int) -> ActiveClient:
    return ActiveClient(
        plan.config,
        plan.identity(number),
        plan.agreed,
        contribution(plan, number),
        task=plan.task,
        random=Stream(seed(plan, number)),
        tasks=None,
    )


def play(plan: ActivePlan) -> Case:
    steps: list[Case] = []
    everyone = range(plan.config.clients)
    clients = {number: client(plan, number) for number in everyone}
    server = Server(plan.config, plan.agreed, task=plan.task, dropout=plan.dropout)
    return {
        "name": plan.name,
        "config": plan.config.encode(),
        "context": plan.config.context,
        "task": plan.task,
        "dropout": plan.dropout,
        "charter": str(plan.agreed),
        "clients": [
            {
                "client": number,
                "identity": plan.identity(number).seed,
                "seed": seed(plan, number),
                "vector": vector(plan, number),
            }
            for number in everyone
        ],
        "drops": [{"client": number, "step": step} for number, step in sorted(plan.drops.items())],
        "steps": steps,
        "outcome": outcome(server, recorder(plan, clients, steps), steps),
    }
