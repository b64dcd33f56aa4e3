"""A desk that plays what a federation goes through, and the operator's side over it on the loopback."""

import asyncio
import contextlib
import hmac
import math
import random
import threading
import time
from collections.abc import Iterator

import msgspec
import uvicorn

from ccesa.errors import ConfigError
from ccesa.service.desk import MemberStatus, PrivacyStatus, RoundStatus, Status, StepStatus
from ccesa.service.errors import Unavailable
from ccesa.service.meters import Meters
from ccesa.service.operator import app

TOKEN = "the operator's token, 32 bytes or so"  # noqa: S105
#: What a round does in three exchanges; the set-up of the next rides along.
EXCHANGES = (("share", "unmask"), ("accept", "mask"), ("advertise", "confirm"))
CITIES = ("Aachen", "Bern", "Coimbra", "Delft", "Espoo", "Freiburg", "Gdansk", "Heidelberg", "Innsbruck", "Jena")
REASONS = {
    "TooFewClients": "step mask: {few} of {all} clients answered, at least {least} are needed",
    "Disconnected": "the masks of clients 1 and 3 are cut off from everyone else's",
}


def member_name(client: int) -> str:
    city = CITIES[client % len(CITIES)]
    return f"{city} hospital" if client < len(CITIES) else f"{city} site {client // len(CITIES) + 1}"


class ShownDesk:
    """Holds a status that tests change, and notes what operators do."""

    def __init__(self, members: int, *, questions: int = 12, private: bool = True, names=member_name) -> None:
        self.began = time.time() - 1800
        self.done: list[tuple[str, int | None, str]] = []
        self.living, self.why, self.away = True, "", False
        self.now = Status(
            name="Five hospitals" if members == 5 else f"Federation of {members} sites",
            guard="active",
            state="gathering",
            questions=questions,
            answered=0,
            series=0,
            exchange=-1,
            steps=[],
            opened=0.0,
            closes=0.0,
            members=[MemberStatus(client=one, name=names(one), state="absent") for one in range(members)],
            rounds=[],
            certificate=[
                f"Even if the hub lies and {members // 10} of {members} members work with it, every sum that "
                f"can be opened has at least {members // 2} honest members in it, except with a probability "
                "of 2^-43 per roster.",
                "With 10% of the members leaving, a round is lost with a probability of about 2^-20.",
                "The charter has serial 3, expires on 2027-06-30, and its digest is 5e1c 9a40 77d2 01bb.",
            ],
            privacy_bits=43.2,
            privacy=PrivacyStatus(epsilon=0.0, budget=8.0, delta=1e-6, vectors=0, rounds=questions)
            if private
            else None,
            head="9f2c" * 16,
            hubs=["hub-1:4711", "hub-2:4712"],
            now=time.time(),
        )

    # What a hub does

    def put(self, **fields) -> None:
        self.now = msgspec.structs.replace(self.now, now=time.time(), **fields)

    def put_members(self, clients, **fields) -> None:
        chosen = set(clients)
        self.put(
            members=[
                msgspec.structs.replace(one, **fields) if one.client in chosen else one for one in self.now.members
            ]
        )

    def come(self, clients) -> None:
        self.put_members(clients, state="present", seen=time.time())

    def open(self, round: int, part: int = 1, seconds: float = 90.0) -> None:
        asked = sum(one.state == "present" for one in self.now.members)
        steps = [
            StepStatus(round=round + (place == 0), step=step, asked=asked, answered=0)
            for place, step in enumerate(EXCHANGES[part])
        ]
        now = time.time()
        self.put_members(range(len(self.now.members)), answered=False, asked=False)
        self.put_members([one.client for one in self.now.members if one.state == "present"], asked=True)
        self.put(
            state="running", series=1, exchange=self.now.exchange + 1, steps=steps, opened=now, closes=now + seconds
        )

    def answer(self, clients) -> None:
        self.put_members(clients, answered=True, seen=time.time())
        answered = sum(one.answered for one in self.now.members)
        self.put(steps=[msgspec.structs.replace(step, answered=answered) for step in self.now.steps])

    def end_round(self, outcome: str = "sum", pairs=(), **metrics: float) -> None:
        number, status = len(self.now.rounds), self.now
        asked = sum(one.state == "present" for one in status.members) or len(status.members)
        lost = outcome != "sum"
        tries = 0
        while tries < number and status.rounds[-1 - tries].outcome != "sum":
            tries += 1
        start = self.began + 100 * number
        over = RoundStatus(
            series=1,
            number=number,
            question=status.answered,
            attempt=tries + 1,
            outcome=outcome,
            reason=REASONS.get(outcome, "").format(few=asked // 2, all=asked, least=asked // 2 + 1),
            survivors=0 if lost else max(1, asked - (number * 7) % max(2, asked // 8)),
            asked=asked,
            pairs=list(pairs),
            started=start,
            ended=start + 61 + 13 * (number % 3),
            metrics=metrics,
        )
        spent = status.privacy and msgspec.structs.replace(
            status.privacy,
            epsilon=8.0 * math.sqrt((status.privacy.vectors + 1) / status.privacy.rounds),
            vectors=status.privacy.vectors + 1,
        )
        self.put(rounds=[*status.rounds, over], answered=status.answered + (not lost), privacy=spent)

    def play(self, rounds: int = 9) -> None:
        """Bring the federation into the middle of things: sums, losses, an accusation, somebody set aside."""
        every, draw = len(self.now.members), random.Random(7)
        away = set(draw.sample(range(every), every // 10))
        self.come(set(range(every)) - away)
        for number in range(rounds):
            lost = {3: "TooFewClients", 6: "Disconnected"}.get(number, "sum")
            share = 1 - math.exp(-(number + 1) / 4)
            metrics = {"accuracy": 0.52 + 0.41 * share, "loss": 2.3 - 1.9 * share} if lost == "sum" else {}
            self.end_round(lost, [(1, 4)] if number == 5 else (), **metrics)
        self.put_members([1, 4], blames=1)
        if every > 5:
            aside = [2, *range(30, every, 97)]
            self.put_members(aside, state="set aside", blames=3, reason="it sent an invalid reply")
        self.put(exchange=2 * rounds)
        self.open(rounds)
        here = [one.client for one in self.now.members if one.state == "present"]
        self.answer(here[: math.ceil(0.7 * len(here))])

    # What the operator's side asks

    def status(self) -> Status:
        return self.now

    def alive(self) -> bool:
        return self.living

    def trouble(self) -> str:
        return self.why

    async def is_operator(self, token: str) -> bool:
        if self.away:
            raise Unavailable("the store is away")
        return hmac.compare_digest(token.encode(), TOKEN.encode())

    async def act(self, action: str, client: int | None, reason: str) -> None:
        if client is not None and client >= len(self.now.members):
            raise ConfigError(f"member {client} does not exist")
        self.done.append((action, client, reason))
        if action in ("pause", "resume", "finish"):
            states = {"pause": "paused", "resume": "running", "finish": "over"}
            self.put(state=states[action], reason=reason)
        elif action == "set-aside":
            self.put_members([client], state="set aside", reason=reason)
        else:
            self.put_members([client], state="absent", reason="", blames=0)


class Serving:
    """The operator's side on a port of the loopback, in a thread; it can be stopped and started again."""

    def __init__(self, desk: ShownDesk, meters: Meters | None = None) -> None:
        self.desk, self.port = desk, 0
        self.app = app(desk, meters)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            self.app,
            host="127.0.0.1",
            port=self.port,
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve()), daemon=True)
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the operator's side does not start")
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.should_exit = True
        self.server.force_exit = True
        self.thread.join(10)


@contextlib.contextmanager
def served(desk: ShownDesk, meters: Meters | None = None) -> Iterator[Serving]:
    serving = Serving(desk, meters)
    serving.start()
    try:
        yield serving
    finally:
        serving.stop()
