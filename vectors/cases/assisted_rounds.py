"""assisted_round.json and assisted_hybrid.json: complete rounds under the guard ``assisted``, byte by byte."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cases.assisted_charters import helped, helper
from cases.charters import identity
from cases.common import STREAM, Case, Stream, sample
from cases.parties import changed, flipped
from cases.rounds import Plan, contribution, result_of, seed, vector
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.crypto.keys import vector_tag
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import Memory, ProcessMemory
from ccesa.privacy.ledger import Ledger
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.submission import Binding, keyring_of, question_digest, sum_text

DESCRIPTION = (
    "Complete rounds under the guard assisted. clients: the members; helpers follow them by their ids. Feed "
    "each member and each helper its requests in order and compare its replies, feed the server the replies "
    "in order and compare its requests and its result. now is the time by all clocks. Where ahead stands "
    "beside an exchange of step mask, the server asks helpers what it can ask at that moment. Everything else "
    "is as in round.json; survivors are members, and of the pairs in accusations the first is a helper."
)
HYBRID_DESCRIPTION = (
    "Rounds with helpers and the agreement x25519-mlkem768, in the form of assisted_round.json. A member's "
    "reply cannot be compared, since it encapsulates anew; helpers can open it, and everything else follows. "
    "parties and exchanges: as in refused_assisted.json, with the same exception."
)
RANDOMNESS = (
    STREAM + " A member draws the 32 bytes of its one-time key. A helper draws the 32 bytes of its X25519 key, "
    "then, with x25519-mlkem768, the 64 bytes of the seed d || z of its ML-KEM key."
)
#: The time by all clocks, in seconds since 1970: 2033-05-18.
NOW = 2_000_000_000
#: A plan, the client that lies, what it was asked and what it should say; gives what it says.
Lie = Callable[["AssistedPlan", int, Any, Any], bytes]


@dataclass(frozen=True)
class AssistedPlan(Plan):
    """A plan with its charter, and the number of members that are also helpers, the first ones."""

    charter: Charter | None = None
    also: int = 0
    #: After so many members in step mask helpers are asked about what has come; then once more at the end.
    ahead: tuple[int, ...] = ()
    #: Who sends something else in a step than it should.
    lies: dict[tuple[str, int], Lie] = field(default_factory=dict)

    @property
    def agreed(self) -> Charter:
        if self.charter is None:
            raise LookupError("a round with helpers needs a charter")
        return self.charter

    def identity(self, client: int) -> Identity:
        """Return the identity of a member, or of a helper by its id."""
        place = client - self.config.clients
        return identity(self.name, client) if place < 0 else helper(self.name, place, self.also)


def plan_of(
    name: str,
    members: int,
    helpers: int = 3,
    drops: dict[int, str] | None = None,
    *,
    length: int,
    task: bytes = sample("task"),
    lies: dict[tuple[str, int], Lie] | None = None,
    also: int = 0,
    number: int = 0,
    ahead: tuple[int, ...] = (),
    **agreed: Any,
) -> AssistedPlan:
    charter = helped(name, members, helpers, also=also, **agreed)
    config = charter.config(length=charter.length or length, series_id=sample(f"helped round {name}"), number=number)
    others: dict[str, Any] = {"also": also, "ahead": ahead, "lies": lies or {}}
    return AssistedPlan(name, config, drops or {}, task=task, charter=charter, **others)


def member(plan: AssistedPlan, client: int) -> ActiveClient:
    found, noise = contribution(plan, client), plan.agreed.mechanism
    ledger = Ledger.in_memory(epsilon=50.0, delta=0.5)
    account = None if noise is None else ledger.account(noise, plan.agreed.digest)
    return ActiveClient(
        plan.config,
        plan.identity(client),
        plan.agreed,
        found if account is None else lambda: found,
        task=plan.task,
        random=Stream(seed(plan, client)),
        tasks=None,
        account=account,
        now=NOW,
    )


def helper_of(
    plan: AssistedPlan, client: int, memory: Memory | None = None, clock: Callable[[], float] = lambda: NOW
) -> Helper:
    return Helper(
        plan.config,
        plan.identity(client),
        plan.agreed,
        memory=ProcessMemory() if memory is None else memory,
        keys=ProcessKeys(),
        random=Stream(seed(plan, client)),
        clock=clock,
    )


def make() -> Case:
    plans = [*plans_with_sum(), *_plans_without_sum()]
    return {"description": DESCRIPTION, "randomness": RANDOMNESS, "rounds": [play(plan) for plan in plans]}


def make_hybrid() -> Case:
    rounds = [play(plan) for plan in hybrid_plans()]
    return {"description": HYBRID_DESCRIPTION, "randomness": RANDOMNESS, "rounds": rounds}


def plans_with_sum() -> list[AssistedPlan]:
    return [
        plan_of("everyone stays; helpers are asked in between", 5, length=9, also=1, number=300, ahead=(2, 4)),
        plan_of("two helpers; a member drops out", 4, 2, {2: "mask"}, length=3, bits=8, generator="chacha20"),
        plan_of("all members help; two of them drop out", 5, 5, {0: "mask", 4: "mask"}, length=5, bits=16, also=5),
        plan_of(
            "one word for each of three", 3, 2, length=1, bits=64, generator="chacha20", colluders=0, min_survivors=2
        ),
        plan_of(
            "boxes that do not fit: two members are left out by name, one of them by two helpers",
            6,
            length=4,
            bits=16,
            lies={("mask", 1): wrong_boxes(0), ("mask", 4): wrong_boxes(1, 2)},
            ahead=(3,),
        ),
    ]


def hybrid_plans() -> list[AssistedPlan]:
    hybrid: dict[str, Any] = {"agreement": "x25519-mlkem768", "length": 2}
    return [
        plan_of("hybrid; a member drops out", 3, 2, {1: "mask"}, bits=8, min_survivors=2, colluders=0, **hybrid),
        plan_of("hybrid, chacha20; a member helps", 3, 2, bits=32, also=1, generator="chacha20", ahead=(1,), **hybrid),
    ]


def _plans_without_sum() -> list[AssistedPlan]:
    small: dict[str, Any] = {"length": 2, "bits": 16}
    unfit = {("mask", 0): wrong_boxes(0), ("mask", 1): wrong_boxes(1)}
    return [
        plan_of("a helper does not show its keys", 4, 3, {5: "key"}, **small),
        plan_of("a helper does not confirm", 4, 3, {5: "mask"}, **small),
        plan_of("two helpers do not answer", 4, 3, {4: "unmask", 6: "unmask"}, **small),
        plan_of("too few members send vectors", 4, 2, {0: "mask", 2: "mask"}, **small),
        plan_of("too few boxes fit", 4, 2, **small, lies=unfit),
        plan_of("a helper signs a wrong sum", 4, 2, **small, lies={("unmask", 5): _wrong_sum}),
    ]


def binding(plan: AssistedPlan, request: m.MaskForHelpersRequest) -> Binding:
    """What the boxes of a member that gets this request are bound to."""
    size = len(request.keys) // len(plan.agreed.helper_seats)
    bundles = [request.keys[place : place + size] for place in range(0, len(request.keys), size)]
    keyring = keyring_of(plan.config.context, bundles)
    return Binding(config=plan.config, context=plan.config.context, task=plan.task, keyring=keyring)


def signed(
    plan: AssistedPlan, client: int, about: Binding, reply: m.BoxedMaskReply, **changes: Any
) -> m.BoxedMaskReply:
    """Sign a reply with these changes as its member would."""
    found = msgspec.structs.replace(reply, **changes)
    size = len(found.ciphertexts) // len(plan.agreed.helper_seats)
    texts = [found.ciphertexts[place : place + size] for place in range(0, len(found.ciphertexts), size or 1)]
    text = about.text(client, found.key, found.boxes, about.digests(texts), found.tag)
    return msgspec.structs.replace(found, signature=plan.identity(client).sign(text))


def wrong_boxes(*places: int) -> Lie:
    """Sign a box for the helpers in these places with one wrong bit."""

    def lie(plan: AssistedPlan, client: int, request: m.MaskForHelpersRequest, reply: m.BoxedMaskReply) -> bytes:
        boxes = reply.boxes
        for place in places:
            boxes = flipped(boxes, 16 * place)
        return signed(plan, client, binding(plan, request), reply, boxes=boxes).encode()

    return lie


def _wrong_sum(plan: AssistedPlan, client: int, request: m.UnmaskSumRequest, reply: m.UnmaskSumReply) -> bytes:
    """Sign a sum of masks with one wrong bit, in its first word."""
    vector = flipped(reply.vector)
    tag = vector_tag(vector, plan.config.context, client)
    text = sum_text(plan.config.context, client, question_digest(request, client), tag)
    return changed(reply, vector=memoryview(vector), tag=tag, signature=plan.identity(client).sign(text))


def play(plan: AssistedPlan) -> Case:
    steps: list[Case] = []
    config, helpers = plan.config, plan.config.helper_ids
    parties: dict[int, Any] = {client: member(plan, client) for client in range(config.clients)}
    parties |= {client: helper_of(plan, client) for client in helpers}
    server = Server(config, plan.agreed, task=plan.task, now=NOW)
    return {
        "name": plan.name,
        "config": config.encode(),
        "context": config.context,
        "task": plan.task,
        "now": NOW,
        "charter": str(plan.agreed),
        "clients": [
            {
                "client": client,
                "identity": plan.identity(client).seed,
                "seed": seed(plan, client),
                "vector": vector(plan, client),
            }
            for client in range(config.clients)
        ],
        "helpers": [
            {"client": client, "identity": plan.identity(client).seed, "seed": seed(plan, client)} for client in helpers
        ],
        "drops": [{"client": client, "step": step} for client, step in sorted(plan.drops.items())],
        "steps": steps,
        "outcome": result_of(lambda: _Recorder(plan, server, parties, steps).run(), steps),
    }


@dataclass(frozen=True)
class _Recorder:
    """Runs a round, and writes down what it carries."""

    plan: AssistedPlan
    server: Server
    parties: dict[int, Any]
    steps: list[Case]

    def run(self) -> Aggregate:
        requests = self.server.open()
        while requests:
            self.steps.append({"step": self.server.step.name, "exchanges": []})
            for count, (client, request) in enumerate(requests.items(), 1):
                self._carry(client, request)
                if count in self.plan.ahead:
                    self._ask()
            self._ask()
            requests = self.server.close()
        return self.server.result()

    def _ask(self) -> None:
        for client, request in self.server.ask_helpers().items():
            self._carry(client, request, ahead=True)

    def _carry(self, client: int, request: bytes, **how: bool) -> None:
        at = self.steps[-1]["step"], client
        exchange: Case = {"client": client, **how, "request": request, "reply": None}
        self.steps[-1]["exchanges"].append(exchange)
        if self.plan.drops.get(client) == at[0]:
            return
        exchange["reply"] = delivered = self.parties[client].receive(request)
        if lie := self.plan.lies.get(at):
            exchange["delivered"] = delivered = lie(self.plan, client, _read(request), _read(delivered))
        self.server.receive(client, delivered)


def _read(data: bytes) -> Any:
    return m.decode(data, len(data))
