"""active_round.json: complete rounds under the guard ``active``, byte by byte."""

from dataclasses import replace
from typing import Any

from cases.common import Case, Stream, fields, sample
from cases.rounds import RANDOMNESS, Plan, outcome, recorder, seed, vector, words, wrong_share
from ccesa.config import Complete, ErdosRenyi, Fixed, Graph, Harary, Linear, RoundConfig
from ccesa.identity import Admission, Identity, Member
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.active_server import ActiveServer

DESCRIPTION = (
    "Complete rounds under the guard active, in the form of round.json, with each client's identity (the "
    "seed of its Ed25519 key) and the admission list. Signatures need no randomness."
)
EACH_STEP = {4: "advertise", 1: "share", 8: "mask", 3: "confirm", 6: "unmask"}


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "randomness": RANDOMNESS,
        "rounds": [play(plan) for plan in [*plans_with_sum(), *_plans_without_sum()]],
    }


def plans_with_sum() -> list[Plan]:
    return [
        Plan(
            "harary; one client drops in each of the five steps",
            _config("harary 5", 12, length=3, graph=Harary(degree=6), min_survivors=5),
            EACH_STEP,
        ),
        Plan(
            "erdos-renyi, linear threshold; one client drops in each of the five steps",
            _config(
                "erdos-renyi 19",
                10,
                length=3,
                bits=16,
                graph=ErdosRenyi(p=0.9),
                threshold=Linear(slope=256, base=2),
                generator="chacha20",
            ),
            EACH_STEP,
        ),
        Plan("complete; everyone stays", _config("three", 3, length=2, bits=64, threshold=Fixed(t=2))),
        Plan(
            "complete; a wrong share is corrected",
            _config("wrong share", 5, length=3, bits=8, task=sample("task")),
            tampers={("unmask", 0): wrong_share},
        ),
    ]


def _plans_without_sum() -> list[Plan]:
    return [
        Plan(
            "unreliable: three of five confirm, each has two neighbours that did and needs three",
            _config("unreliable", 5, length=2, bits=8),
            {0: "confirm", 4: "confirm"},
        ),
        Plan(
            "too few clients confirm",
            _config("too few", 4, length=2, bits=8, min_survivors=4),
            {2: "confirm"},
        ),
    ]


def _config(name: str, clients: int, *, graph: Graph | None = None, **options: Any) -> RoundConfig:
    return RoundConfig(
        round_id=sample(f"active round {name}"),
        clients=clients,
        graph=graph or Complete(),
        guard="active",
        admission=bytes(32),  # of the plan's own list, once it has a name
        **options,
    )


def identity(plan: Plan, client: int) -> Identity:
    return Identity(sample(f"{plan.name}: identity {client}"))


def admission(plan: Plan) -> Admission:
    everyone = range(plan.config.clients)
    return Admission(Member(f"client-{client}", identity(plan, client).public) for client in everyone)


def admitted(plan: Plan) -> Plan:
    """With the digest of its list in its configuration."""
    values = {name: getattr(plan.config, name) for name in plan.config.__struct_fields__}
    return replace(plan, config=RoundConfig(**{**values, "admission": admission(plan).digest}))


def client(plan: Plan, number: int) -> ActiveClient:
    return ActiveClient(
        plan.config,
        identity(plan, number),
        admission(plan),
        words(plan, number),
        random=Stream(seed(plan, number)),
    )


def play(plan: Plan) -> Case:
    plan = admitted(plan)
    steps: list[Case] = []
    everyone = range(plan.config.clients)
    clients = {number: client(plan, number) for number in everyone}
    server = ActiveServer(plan.config, admission(plan))
    return {
        "name": plan.name,
        "fields": fields(plan.config),
        "config": plan.config.encode(),
        "context": plan.config.context,
        "admission": str(admission(plan)),
        "clients": [
            {
                "client": number,
                "identity": identity(plan, number).seed,
                "seed": seed(plan, number),
                "vector": vector(plan, number),
            }
            for number in everyone
        ],
        "drops": [{"client": number, "step": step} for number, step in sorted(plan.drops.items())],
        "steps": steps,
        "outcome": outcome(server, recorder(plan, clients, steps), steps),
    }
