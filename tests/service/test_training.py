"""The example that trains through the service: every site's part over HTTP, with noise and a lost round."""

import importlib.util
from pathlib import Path

from ccesa.service.store import open_store

PATH = Path(__file__).parents[2] / "examples" / "training.py"


def test_sites_train_through_a_round_that_is_lost(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("training", PATH)
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    monkeypatch.setattr(training, "ROUNDS", 2)
    monkeypatch.setattr(training, "LOST", 2)
    training.run(tmp_path, lambda hub: None)
    store = open_store(f"sqlite:///{tmp_path}/federation.db")
    rows = [row for row in store.rounds() if row.question is not None]
    assert [(row.question, row.attempt, row.outcome) for row in rows] == [
        (0, 1, "sum"),
        (1, 1, "TooFewClients"),
        (1, 2, "sum"),
    ]
    assert all(row.metrics["accuracy"] > 0.15 for row in rows if row.outcome == "sum")
    store.close()
