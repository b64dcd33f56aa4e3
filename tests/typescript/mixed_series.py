"""Series of clients in Python, in Node and in a browser, whose randomness follows from their ids."""

from collections.abc import Sequence
from typing import Any

from vectors.cases.common import Stream

from ccesa.agreement.config import RoundConfig
from ccesa.protocol.client import Client
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series import Ended
from mixed import Remote, identity_seed
from rounds import charter_of
from runners import Runner
from series_rounds import SeriesPlay, task_of


class MixedSeries(SeriesPlay):
    """A series with its server in Python; client i is in the i-th place, where None is here."""

    def __init__(self, guard: str, places: Sequence[Runner | None], rounds: int = 3, **options: Any) -> None:
        super().__init__(guard, clients=7, rounds=rounds, **options)
        self.count = rounds
        #: What each client was asked, exchange by exchange.
        self.asked: dict[int, list[bytes]] = {i: [] for i in self.clients}
        for i in self.clients:
            runner = places[i % len(places)]
            if runner is not None:
                self.clients[i] = Remote(runner, f"series/{guard}/{i}", "series", self.part(i))

    def party(self, i: int, config: RoundConfig, **options: Any) -> Client:
        return super().party(i, config, random=Stream(self.seed(i, config.number)), **options)

    def open(self) -> dict[int, bytes]:
        requests = super().open()
        for i, request in requests.items():
            self.asked[i].append(bytes(request))
        return requests

    def play(self) -> list[Ended]:
        """Play all of it; one client misses the third exchange, another the sixth."""
        ended: list[Ended] = []
        exchange = 0
        while not self.series.finished:
            ended += self.exchange({exchange} if exchange in (2, 5) else ())
            exchange += 1
        return ended

    def seed(self, i: int, number: int) -> bytes:
        return bytes([i, number]) * 16

    def part(self, i: int) -> dict[str, Any]:
        """What a client elsewhere is told: a part for each round."""
        first, charter = self.config.number, {}
        if self.guard == "active":
            charter = {"charter": str(charter_of(self.config)), "identity": identity_seed(i).hex()}
        numbers = range(first, first + self.count)
        parts = [{**self.part_of(i, with_number(self.config, number)), **charter} for number in numbers]
        return {"config": self.config.encode().hex(), "rounds": parts, **charter}

    def part_of(self, i: int, config: RoundConfig) -> dict[str, Any]:
        return {
            "config": config.encode().hex(),
            "client": i,
            "vector": self.vector(i, config.number).tobytes().hex(),
            "task": task_of(config.number).hex(),
            "seed": self.seed(i, config.number).hex(),
        }
