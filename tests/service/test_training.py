"""The example that trains through the service: sites over HTTP, noise, a lost round, and the page over it."""

import importlib.util
from pathlib import Path

from browser import BrowserThread, opened
from ccesa.service.store import open_store

PATH = Path(__file__).parents[2] / "examples" / "training.py"


class Looking:
    """A browser that looks at a hub's page from its start to the end."""

    def __init__(self, thread: BrowserThread) -> None:
        self.thread, self.found = thread, None

    def start(self, hub) -> None:
        self.found = self.thread.submit(self.look, hub.page)

    def look(self, url: str) -> list[object]:
        with opened(self.thread.browser, url) as shown:
            shown.page.locator("#state", has_text="Over").wait_for(timeout=60_000)
            return [shown.text("h1"), "2 of 2" in shown.text("#figures"), shown.is_clean()]


def test_sites_train_through_a_round_that_is_lost(tmp_path, monkeypatch, browser_thread):
    spec = importlib.util.spec_from_file_location("training", PATH)
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    monkeypatch.setattr(training, "ROUNDS", 2)
    monkeypatch.setattr(training, "LOST", 2)
    looking = Looking(browser_thread)
    training.run(tmp_path, looking.start)
    assert looking.found.result(30) == ["Twenty clinics", True, True]
    store = open_store(f"sqlite:///{tmp_path}/federation.db")
    rows = [row for row in store.rounds() if row.question is not None]
    assert [(row.question, row.attempt, row.outcome) for row in rows] == [
        (0, 1, "sum"),
        (1, 1, "TooFewClients"),
        (1, 2, "sum"),
    ]
    assert all(row.metrics["accuracy"] > 0.15 for row in rows if row.outcome == "sum")
    store.close()
