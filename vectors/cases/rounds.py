"""round.json: complete rounds, byte by byte, with and without a sum at the end."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from cases.common import STREAM, Case, Stream, fields, sample
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError, RoundFailed
from ccesa.evidence import Evidence
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.round import Transport, run_round
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, Step

DESCRIPTION = (
    "Complete rounds. Feed each client its requests in order and compare its replies, feed the server the "
    "replies in order and compare its requests and its result. A reply of null is a client that dropped out "
    "in this step; where delivered stands beside a reply, the server received that instead. Everyone works "
    "on task, and dropout is what the server expects once shares are accepted. Vectors and sums are "
    "little-endian words of the ring. outcome has the sum, or the name of the failure and the step at whose "
    "end it came, and the pairs of whom one lied: wrong_shares (sender, dealer, liars up to which that is "
    "sure) and accusations (accuser, dealer)."
)
RANDOMNESS = (
    STREAM + " A client draws, in this order: in step 0 the secret of its mask key pair and the 32 bytes of "
    "its sealing key; in step 1 the secret b_i, and the coefficients of its sharing in the order of powers, "
    "for each power 16 words for b_i and 16 for the mask secret. Secrets and coefficients are 16-bit "
    "little-endian words; words of 65521 and more are skipped."
)
Tamper = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Plan:
    """A round, who drops in which step, and which replies are altered on their way."""

    name: str
    config: RoundConfig
    drops: dict[int, str] = field(default_factory=dict)
    tampers: dict[tuple[str, int], Tamper] = field(default_factory=dict)
    #: What everyone works on.
    task: bytes = m.NO_TASK
    #: What the server expects of clients once they have accepted each other's shares.
    dropout: float = 0.1


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "randomness": RANDOMNESS,
        "rounds": [play(plan) for plan in [*plans_with_sum(), *_plans_without_sum()]],
    }


def _config(name: str, clients: int, **options: Any) -> RoundConfig:
    return RoundConfig(series_id=sample(f"round {name}"), clients=clients, **options)


def plans_with_sum() -> list[Plan]:
    each_step = {4: "advertise", 1: "share", 8: "mask", 6: "unmask"}
    return [
        Plan(
            "harary, nested; one client drops in each step",
            _config("h", 10, length=9, graph=Harary(degree=6, mask_degree=4)),
            each_step,
            task=sample("task"),
        ),
        Plan(
            "erdos-renyi, nested; one client drops in each step",
            _config("e 1", 9, length=7, bits=16, graph=ErdosRenyi(p=0.9, mask_p=0.6), generator="chacha20"),
            each_step,
        ),
        Plan("complete; everyone stays", _config("c", 3, length=4, bits=64, threshold=Fixed(t=2))),
        Plan(
            "complete; a client seals garbage for another, who complains and is left out",
            _config("g", 6, length=3, bits=8),
            tampers={("share", 2): garbage(0)},
        ),
        Plan(
            "complete; a wrong share is corrected",
            _config("w", 6, length=3, bits=8, graph=Complete(mask_degree=2)),
            tampers={("unmask", 0): wrong_share},
        ),
        _linear(),
    ]


def _linear() -> Plan:
    """The series id is one whose graph shows every case of the rule.

    Client 4 has d = 1 and t = 3, so it is not fit; 0 and 7 have d = 4 and t = 4, above the majority; 5 has
    d = 7 and t = 5, where the majority is above the line.
    """
    graph, threshold = ErdosRenyi(p=0.5), Linear(slope=290, base=3)
    return Plan(
        "erdos-renyi, linear threshold; a client with one neighbour is left out, another drops",
        _config("linear 510", 8, length=2, bits=16, graph=graph, threshold=threshold),
        {5: "mask"},
    )


def _plans_without_sum() -> list[Plan]:
    small: dict[str, Any] = {"length": 2, "bits": 16}
    return [
        Plan("too few clients are left", _config("t", 5, **small, min_survivors=4), {0: "share", 3: "mask"}),
        Plan(
            "too few clients are fit: four are left to hold shares, t is five",
            _config("f", 8, **small, threshold=Fixed(t=5)),
            dict.fromkeys((1, 4, 5, 7), "advertise"),
        ),
        Plan(
            "unreliable: three share holders of six are left, four are needed",
            _config("u", 6, **small),
            {0: "unmask", 2: "unmask", 3: "unmask"},
        ),
        Plan(
            "disconnected: the ring of masks falls in two",
            _config("d 1", 6, **small, graph=Harary(degree=4, mask_degree=2)),
            {0: "mask", 4: "mask"},
        ),
        Plan(
            "corrupt shares: two of five are wrong, one could be corrected",
            _config("x", 5, **small),
            tampers={("unmask", 0): wrong_share, ("unmask", 1): wrong_share},
        ),
    ]


def wrong_share(reply: bytes) -> bytes:
    """Another field element at the end of the last share, which is the one of the largest neighbour."""
    return reply[:-2] + bytes([reply[-2] ^ 1]) + reply[-1:]


def garbage(*places: int) -> Tamper:
    """The sealed texts at these places, among those for all neighbours, with a wrong bit each."""

    def tamper(reply: bytes) -> bytes:
        message = m.expect(m.decode(reply, len(reply)), m.ShareReply)
        sealed = bytearray(message.sealed)
        for place in places:
            sealed[80 * place] ^= 1
        return msgspec.structs.replace(message, sealed=bytes(sealed)).encode()

    return tamper


def wrong_commitment(reply: bytes) -> bytes:
    message = m.expect(m.decode(reply, len(reply)), m.ShareReply)
    return msgspec.structs.replace(message, commitment=sample("another commitment")).encode()


def lying(*accused: int) -> Tamper:
    """Say in *accept* that the texts of these could not be used."""

    def tamper(reply: bytes) -> bytes:
        message = m.expect(m.decode(reply, len(reply)), m.AcceptReply)
        return msgspec.structs.replace(message, accused=m.pack_ids(np.array(accused))).encode()

    return tamper


def seed(plan: Plan, client: int) -> bytes:
    return sample(f"{plan.name}: client {client}")


def vector(plan: Plan, client: int) -> bytes:
    return sample(f"{plan.name}: vector {client}", plan.config.vector_bytes)


def contribution(plan: Plan, client: int) -> words.Vector:
    return np.frombuffer(vector(plan, client), words.dtype(plan.config.bits))


def _client(plan: Plan, client: int) -> Client:
    random = Stream(seed(plan, client))
    return Client(plan.config, client, contribution(plan, client), task=plan.task, random=random)


def play(plan: Plan) -> Case:
    steps: list[Case] = []
    clients = {client: _client(plan, client) for client in range(plan.config.clients)}
    server = Server(plan.config, task=plan.task, dropout=plan.dropout)
    return {
        "name": plan.name,
        "fields": fields(plan.config),
        "config": plan.config.encode(),
        "context": plan.config.context,
        "task": plan.task,
        "dropout": plan.dropout,
        "clients": [
            {"client": client, "seed": seed(plan, client), "vector": vector(plan, client)}
            for client in range(plan.config.clients)
        ],
        "drops": [{"client": client, "step": step} for client, step in sorted(plan.drops.items())],
        "steps": steps,
        "outcome": outcome(server, recorder(plan, clients, steps), steps),
    }


def recorder(plan: Plan, clients: Mapping[int, Client], steps: list[Case]) -> Transport:
    """A transport that writes down what it carries."""

    def carry(step: Step, requests: Requests) -> Iterable[tuple[int, bytes]]:
        exchanges: list[Case] = []
        steps.append({"step": step.name, "exchanges": exchanges})
        for client, request in requests.items():
            exchange: Case = {"client": client, "request": request, "reply": None}
            exchanges.append(exchange)
            if plan.drops.get(client) == step.name:
                continue
            exchange["reply"] = delivered = clients[client].receive(request)
            if tamper := plan.tampers.get((step.name, client)):
                exchange["delivered"] = delivered = tamper(delivered)
            yield client, delivered

    return carry


def outcome(server: Server, transport: Transport, steps: list[Case]) -> Case:
    return result_of(lambda: run_round(server, transport, _never), steps)


def result_of(run: Callable[[], Aggregate], steps: list[Case]) -> Case:
    """Return the sum, or the failure at the end of the last of these steps."""
    try:
        return _success(run())
    except RoundFailed as failure:
        found = {key: value for key, value in vars(failure).items() if key not in ("evidence", "what")}
        name, step = type(failure).__name__, steps[-1]["step"]
        return {"failure": name, "step": step, **found, **evidence(failure.evidence)}


def evidence(found: Evidence) -> Case:
    """Pairs of clients of whom one lied: (sender, dealer), and (accuser, dealer)."""
    return {"wrong_shares": sorted(found.wrong_shares), "accusations": sorted(found.accusations)}


def _success(aggregate: Aggregate) -> Case:
    return {"sum": aggregate.vector.tobytes(), "survivors": list(aggregate.survivors), **evidence(aggregate.evidence)}


def _never(fault: CcesaError) -> None:
    raise fault
