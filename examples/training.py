"""Training through the service: a hub and its sites learn digits together, with noise and with accidents.

    python examples/training.py              # twenty sites, ten rounds; prints where the page is
    python examples/training.py --slow 3     # with sites that take up to three seconds, so that one sees more

Hub and sites run in one process here, each site in a thread of its own, and talk over HTTP as machines
would. The hub's side is `Training`, a coordinator: its task is the model, and it is told the mean of the
sites' changes. A site's side is `contribute`. Now and then the power of a site is out, and once that of most
of them: that round is lost, its question is asked again, and sites that start again are in it. (An error in
`contribute` would not show: with noise a site that has nothing to send sends noise.)
"""

import argparse
import asyncio
import socket
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import ccesa
from ccesa.demo import learning
from ccesa.service import Averaging, Federation, Hub, HubTable, Participant, Policy

CITIES = ("Aachen", "Bern", "Coimbra", "Delft", "Espoo", "Freiburg", "Gdansk", "Heidelberg", "Innsbruck", "Jena")
NAMES = [f"{city}-{side}" for side in ("clinic", "hospital") for city in CITIES]
ROUNDS, LOST, SEED = 10, 4, 1


class Training(Averaging):
    """Adds the mean of the sites' changes to the model, and says how good it is by now."""

    def __init__(self, data: learning.Dataset) -> None:
        weights, biases = learning.new_model()
        super().__init__({"weights": weights, "biases": biases})
        self._data = data

    def result(self, result):
        super().result(result)
        model = [self.model["weights"], self.model["biases"]]
        return {"accuracy": learning.accuracy(model, self._data), "sites": len(result.survivors)}


class PowerCut(KeyboardInterrupt):
    """Ends a site in the middle of its work, as Ctrl-C does."""


class Site:
    """A site's own data, and what it does when it is asked."""

    def __init__(self, data: learning.Dataset, number: int, slow: float = 0.0) -> None:
        self._data, self._number, self._slow, self._asked = data, number, slow, 0
        self._luck = np.random.default_rng([SEED, number])

    def contribute(self, task, number):
        """Return what this site's data would add to the model."""
        self._asked += 1
        time.sleep(self._slow * self._luck.random())
        trouble = self._asked == LOST and self._number >= 6
        if trouble or self._luck.random() < 0.05:
            raise PowerCut
        weights, biases = self._data.update([task["weights"], task["biases"]], self._number)
        return {"weights": weights, "biases": biases}


def agree(folder: Path) -> tuple[ccesa.Charter, list[ccesa.Identity]]:
    """Make keys, a plan with noise, and the charter that all sites agree on."""
    identities = [ccesa.Identity.new(name) for name in NAMES]
    members = ccesa.Admission(ccesa.Member(one.name, one.public) for one in identities)
    asked = ccesa.DifferentialPrivacy(epsilon=16.0, delta=1e-5, rounds=2 * ROUNDS, norm=1.0)
    parameters = learning.PIXELS * learning.CLASSES + learning.CLASSES
    planned = ccesa.plan.plan(
        len(NAMES), dropout=0.1, guard="active", length=parameters, privacy=asked, reliability_bits=7
    )
    charter = ccesa.plan.charter(planned, members, expires=datetime.now(UTC) + timedelta(days=1))
    for one in identities:
        ccesa.Ledger.new(folder / f"{one.name}.ledger", epsilon=asked.epsilon, delta=asked.delta)
    return charter, identities


def federation(folder: Path, charter: ccesa.Charter) -> Federation:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Federation(
        name="Twenty clinics",
        question="digits",
        rounds=ROUNDS,
        charter=charter,
        policy=Policy(enough=0.7, after=2, deadline=20, vector_after=5, vector_deadline=20, gather=60),
        hub=HubTable(listen=f"127.0.0.1:{port}", operate="127.0.0.1:0"),
        folder=folder,
    )


def run(folder: Path, ready, slow: float = 0.0) -> Hub:
    """Run all of it; ``ready`` is called with the hub as soon as its page can be looked at."""
    data = learning.digits(len(NAMES), SEED)
    charter, identities = agree(folder)
    hub = Hub(federation(folder, charter), Training(data), until_over=True)
    threads = []

    def join(site: int) -> None:
        name, contribute = identities[site].name, Site(data, site, slow).contribute
        participant = Participant(
            hub.address,
            charter=charter,
            identity=identities[site],
            memory=folder / f"{name}.memory",
            ledger=folder / f"{name}.ledger",
        )
        while True:
            try:
                return participant.run(contribute)
            except PowerCut:
                continue  # it starts again, out of the rounds in flight

    def start(hub: Hub) -> None:
        ready(hub)
        for site in range(len(NAMES)):
            threads.append(threading.Thread(target=join, args=(site,), daemon=True))
            threads[-1].start()

    asyncio.run(hub.run(start))
    return hub


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", type=float, default=0.0, help="seconds that training takes at most")
    slow = parser.parse_args().slow
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), lambda hub: print(f"page: {hub.page}", flush=True), slow)
        from ccesa.service.store import open_store

        store = open_store(f"sqlite:///{folder}/federation.db")
        for row in store.rounds():
            accuracy = row.metrics.get("accuracy")
            said = row.reason if accuracy is None else f"{len(row.survivors)} sites, accuracy {accuracy:.3f}"
            print(f"question {row.question}, attempt {row.attempt}: {row.outcome}, {said}")
        store.close()


if __name__ == "__main__":
    main()
