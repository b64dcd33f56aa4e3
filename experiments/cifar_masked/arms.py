"""The rounds of both arms, one after the other: what is timed, what is compared, what is kept."""

import argparse
import io
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ccesa.words import dtype
from experiments import rounds
from experiments.cifar import Cifar
from experiments.cifar_masked import protocol
from experiments.cifar_masked.device import Words
from experiments.cifar_masked.parties import single
from experiments.cifar_masked.protocol import Finished, Prepared
from experiments.cifar_masked.setup import BITS, Effort, Series, Task, planned
from experiments.cifar_masked.train import Federation, Sums, added, equip, host
from experiments.record import write
from experiments.vgg import name_of

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch

ARMS = ("masked", "plain")
#: Every so many rounds the models are written down.
_EVERY = 10
#: The round that is also run whole, without a device, before all others.
_SMALL_CLIENTS, _SMALL_LENGTH = 60, 1003


@dataclass(frozen=True, kw_only=True, eq=False)
class Masked:
    """A round of the masked arm: who sent what, what came out, and how long it took."""

    members: list[int]
    prepared: Prepared
    sums: Sums
    found: Finished
    opened: Words
    seconds: dict[str, float]


class Both:
    """Two arms with a model each."""

    def __init__(self, data: Cifar, effort: Effort, wanted: argparse.Namespace) -> None:
        self.federation = equip(data, effort.clients, effort.channels, wanted.seed, wanted.together)
        network = self.federation.network
        self.models = {arm: network.new(wanted.seed, self.federation.device) for arm in ARMS}
        self.series = Series(clients=effort.clients, length=network.size, seed=wanted.seed)
        self._state: Path = wanted.state
        self._server = single(wanted.processes > 0, self.federation.masking.kernel)
        self._server.submit(protocol.begin, wanted.processes).result()
        self._next: Future[Prepared] | None = None
        check_small(self._server, self.federation, wanted.seed)

    def __enter__(self) -> "Both":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.submit(protocol.end).result()
        self._server.shutdown()

    def resumed(self, before: dict[str, Any] | None) -> dict[str, Any]:
        """What an earlier call has found, up to the models that it kept; by default nothing."""
        done = self._restore() if before is not None else 0
        made = planned(self.series.clients)
        return {
            "device": name_of(self.federation.device),
            "parameters": self.series.length,
            "clients": self.series.clients,
            "graph": repr(made.graph),
            "threshold": repr(made.threshold),
            "rounds": before["rounds"][:done] if before is not None else [],
        }

    def round(self, number: int) -> dict[str, Any]:
        """One round of each arm, checked."""
        task = self.series.task(number)
        run = self._masked(number, task)
        began = time.perf_counter()
        start = self.models["plain"]
        plain = self.federation.sums(start, run.members, None).plain
        self.models["plain"] = self.federation.moved(start, plain, len(run.members))
        _settled()
        seconds = run.seconds | {"plain": time.perf_counter() - began}
        if run.found.survivors != run.members or not torch.equal(run.opened, run.sums.plain):
            raise ArithmeticError(f"the sum of round {number} is not that of its survivors' words")
        if run.sums.witness is not None:
            check_witness(task, run.prepared, *run.sums.witness)
        masks = sum(map(len, run.prepared.masks.values()))
        return {
            "number": number,
            "seconds": seconds,
            "accuracy": {arm: self.federation.accuracy(self.models[arm]) for arm in ARMS},
            "exact": True,
            "witness": run.sums.witness is not None,
            "same_model": bool(torch.equal(self.models["masked"], self.models["plain"])),
            "left": run.found.left,
            "gone": {step: len(gone) for step, gone in task.gone.items()},
            "masks": masks,
            "taken_off": run.found.taken_off,
            "keystream_bytes": (masks + run.found.taken_off) * self.series.length * BITS // 8,
        }

    def _masked(self, number: int, task: Task) -> "Masked":
        """The masked arm. The first round has been set up before its time counts, as every later one has."""
        waiting = self._next or self._server.submit(protocol.prepare, task)
        waiting.result()
        _settled()
        started = time.perf_counter()
        # The next round is set up while this one trains, and within its time: it is done before ``finish``.
        self._next = self._server.submit(protocol.prepare, self.series.task(number + 1))
        prepared, start = waiting.result(), self.models["masked"]
        members = sorted(prepared.masks)
        witness = prepared.witness.client if number == 0 else -1
        sums = self.federation.sums(start, members, [prepared.masks[one] for one in members], witness)
        total = host(sums.masked).tobytes()
        trained = time.perf_counter()
        found: Finished = self._server.submit(protocol.finish, task.config.context, total).result()
        opened = self.federation.words(found.vector)
        self.models["masked"] = self.federation.moved(start, opened, len(members))
        _settled()
        seconds = {
            "masked": time.perf_counter() - started,
            "trained": trained - started,
            "prepared": prepared.seconds,
            "finished": found.seconds,
        }
        return Masked(members=members, prepared=prepared, sums=sums, found=found, opened=opened, seconds=seconds)

    def keep(self, done: int) -> None:
        """Write both models down, now and then."""
        if done % _EVERY == 0:
            for arm in ARMS:
                raw = io.BytesIO()
                np.save(raw, self.models[arm].cpu().numpy())
                write(self._state / f"{arm}-{done}.npy", raw.getvalue())

    def _restore(self) -> int:
        """Load the newest models that both arms have; return after how many rounds they are."""
        found = [int(path.stem.split("-")[1]) for path in self._state.glob("plain-*.npy")]
        done = [one for one in found if (self._state / f"masked-{one}.npy").exists()]
        for arm in ARMS if done else ():
            row = np.load(self._state / f"{arm}-{max(done)}.npy")
            self.models[arm] = torch.from_numpy(row).to(self.federation.device)
        return max(done, default=0)


def check_witness(task: Task, prepared: Prepared, words: Any, masked: bytes) -> None:
    """Hold what the device masked against the vector that a whole client of the same keys sends."""
    if prepared.witness.masked(task, words) != masked:
        raise ArithmeticError(f"client {prepared.witness.client} would send another vector than the device's")


def check_small(server: Any, federation: Federation, seed: int) -> None:
    """Run one round of short vectors in both ways: whole, through real messages, and with the device."""
    series = Series(clients=_SMALL_CLIENTS, length=_SMALL_LENGTH, seed=seed)
    task = series.task(0)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(2**BITS, size=(series.clients, series.length), dtype=np.uint64).astype(dtype(BITS))
    whole = rounds.ran(task.config, lambda client: drawn[client], task.gone, task.seed).result
    prepared: Prepared = server.submit(protocol.prepare, task).result()
    members = sorted(prepared.masks)
    vectors = [federation.words(drawn[member].tobytes()) for member in members]
    keys = federation.masking.upload([prepared.masks[member] for member in members])
    for vector, masks in zip(vectors, keys, strict=True):
        federation.masking.mask(vector.clone(), vector, masks)
    total = host(added(vectors)).tobytes()
    found: Finished = server.submit(protocol.finish, task.config.context, total).result()
    if isinstance(whole, Exception) or found.survivors != list(whole.survivors):
        raise ArithmeticError("of a round that was run in two ways the survivors differ")
    if found.vector != whole.vector.tobytes():
        raise ArithmeticError("of a round that was run in two ways the sums differ")
    check_witness(task, prepared, drawn[prepared.witness.client], _of(prepared, members, vectors))
    print(f"a round of {series.clients} clients, run in two ways: the same sum", flush=True)


def _of(prepared: Prepared, members: list[int], vectors: list[Any]) -> bytes:
    return host(vectors[members.index(prepared.witness.client)]).tobytes()


def _settled() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
