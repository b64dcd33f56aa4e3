"""The example that trains through the service: sites over HTTP, noise, a lost round, and the page over it."""

import importlib.util
import threading
from pathlib import Path

import pytest

from browser import chromium, opened
from ccesa.service.store import open_store

PATH = Path(__file__).parents[2] / "examples" / "training.py"


class Looking:
    """A browser that looks at a hub's page from its start to the end."""

    def __init__(self) -> None:
        self.found, self.thread = [], None

    def start(self, hub) -> None:
        self.thread = threading.Thread(target=self.look, args=(hub.page,))
        self.thread.start()

    def look(self, url: str) -> None:
        with chromium() as browser, opened(browser, url) as shown:
            shown.page.locator("#state", has_text="Over").wait_for(timeout=60_000)
            self.found = [shown.text("h1"), "2 of 2" in shown.text("#figures"), shown.is_clean()]


@pytest.mark.needs("chromium")
def test_sites_train_through_a_round_that_is_lost(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("training", PATH)
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    monkeypatch.setattr(training, "ROUNDS", 2)
    monkeypatch.setattr(training, "LOST", 2)
    shown = Looking()
    training.run(tmp_path, shown.start)
    shown.thread.join(30)
    assert shown.found == ["Twenty clinics", True, True], shown.found
    store = open_store(f"sqlite:///{tmp_path}/federation.db")
    rows = [row for row in store.rounds() if row.question is not None]
    assert [(row.question, row.attempt, row.outcome) for row in rows] == [
        (0, 1, "sum"),
        (1, 1, "TooFewClients"),
        (1, 2, "sum"),
    ]
    assert all(row.metrics["accuracy"] > 0.15 for row in rows if row.outcome == "sum")
    store.close()
