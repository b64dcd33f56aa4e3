"""A hub for one round of the demo: ``ccesa serve``, in a process and a folder of its own."""

import asyncio
import base64
import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

import ccesa
from ccesa.agreement.charter import Charter, Seat
from ccesa.graphs import Complete
from ccesa.graphs.thresholds import Majority
from ccesa.service.federation import Federation
from ccesa.service.store import open_store
from ccesa.service.tokens import hash_token, new_token
from ccesa.simulate.enrolment import NOTHING

#: The fewest people in a sum. With two, each would know the other's number.
LEAST = 3
#: How many words a contribution has, and of how many bits: sums of a hundred people fit.
TOPICS = {"number": (1, 32), "drawing": (28 * 28, 16)}
#: How long people are waited for once the hub is there, in seconds: under a charter they compare it first.
GATHER = {"curious": 4, "active": 25}
#: Messages that have a masked vector, which is their last field.
_WITH_VECTOR = {"mask-reply", "signed-mask-reply"}
#: Seconds in which a round comes to its end, whatever happens.
MOST_SECONDS = 120.0


@dataclass(kw_only=True, eq=False)
class Play:
    """One round: who is in it, how far it is, and what the hub was sent.

    Every round is a federation of its own, of exactly those who have pressed the button.
    """

    number: int
    topic: str
    guard: str
    #: Names by client id, and under the guard active the public key of each in base64.
    names: list[str]
    keys: list[str]
    pace: float
    origins: list[str]
    tokens: list[str] = field(default_factory=list)
    charter: str | None = None
    address: str = ""
    phase: str = "preparing"
    #: The open step, and who has answered in it.
    step: dict[str, Any] | None = None
    answered: list[bool] = field(default_factory=list)
    #: Masked vectors by client, in the order in which they came; and what the hub has published.
    vectors: dict[int, bytes] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None

    @property
    def length(self) -> int:
        """How many words a contribution has."""
        return TOPICS[self.topic][0]

    @property
    def bits(self) -> int:
        """Bits of a word."""
        return TOPICS[self.topic][1]

    async def run(self, lingers: float) -> None:
        """Run the round to its end; the hub stays for a while after it, so that everyone gets the sum."""
        folder = Path(tempfile.mkdtemp(prefix="ccesa-browser-"))
        process = None
        try:
            public, operator = self._prepare(folder)
            process = await _serve(folder)
            await self._follow(f"http://127.0.0.1:{public}", f"http://127.0.0.1:{operator}")
            await asyncio.sleep(lingers)
        except Exception as error:
            self._end({"kind": "lost", "reason": f"the hub could not be run: {error}"})
            raise
        finally:
            self.address = ""
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            shutil.rmtree(folder, ignore_errors=True)

    # What an operator would do by hand

    def _prepare(self, folder: Path) -> tuple[int, int]:
        """Write the federation's file, and the tokens into its store, as `ccesa invite` does."""
        public, operator = _free_ports(2)
        if self.guard == "active":
            self.charter = self._make_charter()
            (folder / "charter.toml").write_text(self.charter, encoding="utf-8")
        file = folder / "federation.toml"
        file.write_text(self._federation(public, operator), encoding="utf-8")
        file.chmod(0o600)
        federation = Federation.load(file)
        store = open_store(federation.store)
        store.check_federation(federation.name, federation.digest)
        if self.guard == "curious":
            self.tokens = [new_token() for _ in self.names]
            for client, token in enumerate(self.tokens):
                store.add_token(hash_token(token), client, "")
        store.close()
        return public, operator

    def _make_charter(self) -> str:
        seats = zip(self.names, self.keys, strict=True)
        return str(
            Charter(
                serial=1,
                expires=int(time.time()) + 3600,
                members=tuple(Seat(name.replace(" ", "-"), base64.b64decode(key)) for name, key in seats),
                graph=Complete(),
                threshold=Majority(),
                bits=self.bits,
                least_roster=LEAST,
                min_survivors=LEAST,
                attempts=1,
                certificate=NOTHING,
            )
        )

    def _federation(self, public: int, operator: int) -> str:
        """Return the federation's file; docs/service.md has every key."""
        agreed = (
            'charter = "charter.toml"'
            if self.guard == "active"
            else f"attempts = 1\n[round]\nclients = {len(self.names)}\nmin_survivors = {LEAST}\n"
            'graph = {type = "complete"}\nthreshold = {type = "majority"}'
        )
        bits = "" if self.guard == "active" else f"bits = {self.bits}"
        return f"""\
name = "browsers, round {self.number}"
question = "{self.topic}"
rounds = 1
{agreed}

[form]
type = "words"
words = {self.length}
{bits}

[policy]  # people watch: nobody is waited for long
enough = 0.34
after = 4
deadline = 8
vector_after = {1.5 * self.pace + 3}
vector_deadline = {1.5 * self.pace + 8}
gather = {GATHER[self.guard]}
absent = {max(8, GATHER[self.guard])}

[hub]
listen = "127.0.0.1:{public}"
operate = "127.0.0.1:{operator}"
origins = [{", ".join(f'"{one}"' for one in self.origins)}]
"""

    # How far it is

    async def _follow(self, public: str, operator: str) -> None:
        """Look at the hub's status, as its own page does, until there is an outcome."""
        began = time.monotonic()
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
            while self.outcome is None:
                waited = time.monotonic() - began
                with contextlib.suppress(httpx.TransportError):
                    status = (await http.get(f"{operator}/status")).raise_for_status().json()
                    self.address = public
                    self._look(status, waited)
                if waited > MOST_SECONDS:
                    self._end({"kind": "lost", "reason": "it took too long"})
                await asyncio.sleep(0.15)

    def _look(self, status: dict[str, Any], waited: float) -> None:
        if self.phase == "preparing":
            self.phase = "running"
        self.step = next(iter(status["steps"]), None)
        self.answered = [member["answered"] for member in status["members"]]
        if status["rounds"]:
            last = status["rounds"][0]
            won = last["outcome"] == "sum"
            self._end({"kind": "sum"} if won else {"kind": "lost", "reason": last["reason"] or last["outcome"]})
        elif status["state"] == "gathering" and waited > GATHER[self.guard] + 8:
            self._end({"kind": "lost", "reason": f"fewer than {LEAST} people were still here"})

    def _end(self, outcome: dict[str, Any]) -> None:
        self.outcome, self.phase, self.step = outcome, "over", None

    # What the hub is sent; the demo's web server passes it on

    def saw_reply(self, envelope: bytes) -> None:
        """Keep the masked vector of a reply that the hub has taken, for the page that shows what it has."""
        if len(envelope) < 4:
            return
        name, _, client, *fields = msgspec.msgpack.decode(envelope[4:])
        if name in _WITH_VECTOR:
            self.vectors[client] = fields[-1]


async def _serve(folder: Path) -> asyncio.subprocess.Process:
    """Run `ccesa serve`; what it logs goes to a file in its folder."""
    path = os.pathsep.join([str(Path(ccesa.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    with (folder / "hub.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ccesa", "serve", "federation.toml",
            cwd=folder, env=os.environ | {"PYTHONPATH": path},
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, of this machine's loopback."""
    with contextlib.ExitStack() as opened:
        made = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in made]
