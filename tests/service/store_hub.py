"""A hub as the store sees it: it claims, adds up, saves, and starts over where it was fenced off."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path

from ccesa.service.errors import Unavailable
from ccesa.service.store import Store, open_store
from ccesa.service.store.rows import Claim, ExchangeRow


def opening(place: int) -> ExchangeRow:
    return ExchangeRow(exchange=place, members=(), task=bytes(32), question=None, opened=float(place))


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


class Hub:
    """Adds up what clients send, which is a number for each; its sum is a number, too."""

    def __init__(self, store: Store, name: str, place: tuple[int, int]) -> None:
        self.store, self._names, self.place = store, (f"{name}.{life}" for life in count()), place
        #: Clients whose replies were acknowledged.
        self.acknowledged: dict[int, bytes] = {}
        self.start_over()

    def start_over(self) -> None:
        """Forget everything that is not in the store."""
        self.name, self.total, self.pending = next(self._names), 0, dict[int, bytes]()

    def claim(self, replies: Mapping[int, bytes]) -> dict[int, Claim]:
        """Claim replies, and add those up that are its own."""
        claims = self.store.claim(*self.place, self.name, replies)
        for client, claim in claims.items():
            if claim is Claim.OWN and client not in self.pending:
                self.pending[client] = replies[client]
                self.total += number(replies[client])
        return claims

    def release(self, client: int) -> None:
        """Give up a reply as if it were faulty."""
        if client in self.pending:
            self.total -= number(self.pending.pop(client))
        self.store.release(*self.place, self.name, [client])

    def save(self) -> bool:
        """Save what is pending, acknowledge it, and start over where that is refused."""
        saved = self.store.save(*self.place, self.name, self.pending, self.total.to_bytes(16, "little"))
        if saved:
            self.acknowledged |= self.pending
            self.pending = {}
        else:
            self.start_over()
        return saved


def check(store: Store, place: tuple[int, int]) -> dict[int, bytes]:
    """Each hub's sum is that of the answers it saved, so no client is in two; return all answers."""
    with store._database.reading() as run:
        rows = run("SELECT hub, body FROM answers WHERE series = ? AND exchange = ? AND body IS NOT NULL", *place)
        sums = dict(run("SELECT hub, total FROM sums WHERE series = ? AND exchange = ?", *place))
    by_hub: dict[str, int] = {}
    for hub, body in rows:
        by_hub[hub] = by_hub.get(hub, 0) + number(body)
    assert by_hub == {hub: number(total) for hub, total in sums.items()}
    return store.answers(*place)


def work(hub: Hub, clients: Iterable[int], seed: int, said: Callable[[int, bytes], None]) -> None:
    """Take replies in batches and in any order, until the exchange closes; say what was acknowledged."""
    chance = random.Random(seed)
    left = dict.fromkeys(clients)
    while left:
        batch = chance.sample(sorted(left), min(len(left), chance.choice([1, 3, 8])))
        replies = {client: chance.choice([1, 1, 1, 2 + client]).to_bytes(3, "little") for client in batch}
        try:
            claims = hub.claim(replies)
            if chance.random() < 0.1 and hub.pending:
                hub.release(chance.choice(sorted(hub.pending)))
            if not hub.save():
                claims = dict.fromkeys(claims, Claim.PENDING)
        except Unavailable:
            hub.start_over()
            continue
        for client, claim in claims.items():
            if claim is Claim.OWN and client in hub.acknowledged:
                said(client, hub.acknowledged[client])
            if claim in (Claim.SAVED, Claim.OTHER, Claim.LATE) or client in hub.acknowledged:
                left.pop(client, None)


class Process:
    """A hub in a process of its own."""

    def __init__(self, url, place, seed, said):
        self._said = said
        with open(said, "wb") as output, open(f"{said}.errors", "wb") as errors:
            command = [sys.executable, __file__, url, f"hub {seed}", *map(str, place), "4000", str(seed)]
            self._process = subprocess.Popen(command, stdout=output, stderr=errors)
        while not said.read_bytes().startswith(b"ready"):
            assert self._process.poll() is None, Path(f"{said}.errors").read_text()
            time.sleep(0.01)

    def kill(self):
        """Kill it; return what it has acknowledged by then, as pairs of client and number."""
        self._process.kill()
        self._process.wait()
        assert Path(f"{self._said}.errors").read_text() == ""
        _, *lines = self._said.read_text().splitlines()
        return [tuple(map(int, line.split())) for line in lines]


def main(url: str, name: str, series: str, exchange: str, clients: str, seed: str) -> None:
    """Be a hub in a process of its own, which says on its output what was acknowledged."""
    hub = Hub(open_store(url), name, (int(series), int(exchange)))

    def say(*words: object) -> None:
        os.write(1, " ".join(map(str, (*words, "\n"))).encode())

    say("ready")
    work(hub, range(int(clients)), int(seed), lambda client, body: say(client, number(body)))


if __name__ == "__main__":
    main(*sys.argv[1:])
