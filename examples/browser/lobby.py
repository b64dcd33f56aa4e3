"""The lobby of the demo: who is here, who has pressed the button, and when a round begins."""

import asyncio
import itertools
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from hubs import LEAST, Play

#: A round has at most so many people; whoever presses later is in the next one.
MOST = 60
#: Seconds after which somebody who is not heard from is gone, and for which one who reloads is waited for.
GONE, RELOADS = 6.0, 2.0
#: Seconds between the last button and the start, if everyone here has pressed it.
SOON = 1.5
#: A hub stays for so many seconds after its round.
LINGERS = 30.0

_COLOURS = (
    *("amber", "azure", "coral", "ivory", "jade", "lilac", "lime", "mint"),
    *("navy", "olive", "pearl", "pink", "plum", "ruby", "rust", "teal"),
)
_ANIMALS = (
    *("badger", "bear", "crane", "deer", "falcon", "fox", "hare", "heron"),
    *("lynx", "otter", "owl", "robin", "seal", "swan", "wolf", "wren"),
)


@dataclass(kw_only=True, eq=False)
class Guest:
    """A tab that is open, known by a ticket that only it has."""

    ticket: str
    name: str
    heard: float
    ready: bool = False
    #: Under the guard active: the public key of the identity that this tab has made for the next round.
    key: str = ""


@dataclass(kw_only=True, eq=False)
class Room:
    """People who add up the same kind of thing; when enough have pressed the button, a round begins."""

    topic: str
    guard: str
    pace: float
    #: How long others are waited for once enough have pressed, in seconds.
    patience: float
    origins: list[str]
    numbers: itertools.count
    guests: dict[str, Guest] = field(default_factory=dict)
    play: Play | None = None
    #: The tickets of those in the round, by client id.
    seats: list[str] = field(default_factory=list)
    starts: float | None = None

    def sit(self, ticket: str) -> Guest:
        """Return the guest with this ticket; somebody new if there is none."""
        guest = self.guests.get(ticket)
        if guest is None:
            guest = Guest(ticket=secrets.token_urlsafe(16), name=self._free_name(), heard=time.monotonic())
            self.guests[guest.ticket] = guest
        return guest

    def _free_name(self) -> str:
        taken = {guest.name for guest in self.guests.values()} | set(self.play.names if self.play else ())
        while True:
            name = f"{secrets.choice(_COLOURS)} {secrets.choice(_ANIMALS)}"
            if name not in taken:
                return name

    def ready(self, guest: Guest, is_ready: bool, key: str) -> None:
        """Note whether somebody has pressed the button, or has taken that back."""
        guest.ready, guest.key = is_ready, key

    def leave(self, ticket: str) -> None:
        """Note that a tab is being closed, or reloaded."""
        if ticket in self.guests:
            self.guests[ticket].heard = min(self.guests[ticket].heard, time.monotonic() - GONE + RELOADS)

    def is_here(self, ticket: str) -> bool:
        """Tell whether a tab is still open."""
        return ticket in self.guests

    # Rounds

    def tick(self) -> Play | None:
        """Forget who is gone; return a round that begins now."""
        now = time.monotonic()
        self.guests = {one.ticket: one for one in self.guests.values() if now - one.heard < GONE}
        if self.play is not None and self.play.outcome is None:
            return None
        ready = [one for one in self.guests.values() if one.ready][:MOST]
        if len(ready) < LEAST:
            self.starts = None
            return None
        wait = SOON if len(ready) == len(self.guests) else self.patience
        self.starts = now + wait if self.starts is None else min(self.starts, now + wait)
        return self._begin(ready) if now >= self.starts else None

    def _begin(self, ready: list[Guest]) -> Play:
        self.starts, self.seats = None, [one.ticket for one in ready]
        self.play = Play(
            number=next(self.numbers),
            topic=self.topic,
            guard=self.guard,
            names=[one.name for one in ready],
            keys=[one.key for one in ready],
            pace=self.pace,
            origins=self.origins,
        )
        for one in ready:
            one.ready, one.key = False, ""
        return self.play

    # What tabs are told

    def told(self, guest: Guest) -> dict[str, Any]:
        """Return what one tab is told, when it asks; a token is told to its own tab only."""
        people = [{"name": one.name, "ready": one.ready, "you": one is guest} for one in self.guests.values()]
        waits = None if self.starts is None else max(0.0, self.starts - time.monotonic())
        return {
            "guard": self.guard,
            "least": LEAST,
            "pace": self.pace,
            "name": guest.name,
            "ready": guest.ready,
            "people": people,
            "starts_in": waits,
            "play": None if self.play is None else self._told_play(self.play, guest),
        }

    def _told_play(self, play: Play, guest: Guest) -> dict[str, Any]:
        client = self.seats.index(guest.ticket) if guest.ticket in self.seats else None
        mine = client is not None and bool(play.address)
        return {
            "number": play.number,
            "phase": play.phase,
            "names": play.names,
            "gone": [not self.is_here(ticket) for ticket in self.seats],
            "answered": play.answered,
            "step": play.step,
            "outcome": play.outcome,
            "vectors": sorted(play.vectors),
            "client": client,
            "token": play.tokens[client] if mine and play.tokens and client is not None else None,
            "charter": play.charter if mine else None,
        }


class Lobby:
    """All rooms, and the task that looks after them."""

    def __init__(self, *, guard: str, pace: float, patience: float, origins: list[str]) -> None:
        numbers = itertools.count(1)
        self.rooms = {
            topic: Room(topic=topic, guard=guard, pace=pace, patience=patience, origins=origins, numbers=numbers)
            for topic in ("number", "drawing")
        }
        #: Rounds by number, as long as their hubs are there.
        self.plays: dict[int, Play] = {}
        self._running: set[asyncio.Task] = set()

    async def look_after(self) -> None:
        """Begin rounds when it is time, until cancelled; then all hubs end, too."""
        try:
            while True:
                for room in self.rooms.values():
                    play = room.tick()
                    if play is not None:
                        self._begin(play)
                await asyncio.sleep(0.2)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _begin(self, play: Play) -> None:
        self.plays[play.number] = play
        task = asyncio.create_task(play.run(LINGERS))
        self._running.add(task)

        def ended(task: asyncio.Task) -> None:
            self._running.discard(task)
            self.plays.pop(play.number, None)
            if not task.cancelled() and task.exception() is not None:
                print(f"round {play.number}: {task.exception()}", flush=True)

        task.add_done_callback(ended)
