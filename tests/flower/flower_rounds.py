"""A secure round in a federation in memory, and what it must give."""

import re
from collections.abc import Iterable

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Identity
from ccesa.flower import SecureGrid
from ccesa.simulate.enrolment import make_charter
from flower_grid import as_record, mean, model_in, new_model, number, trained

STEPS = ["advertise", "share", "mask", "unmask"]
NODES = 6
#: float32 arithmetic, here and in Flower's own mean.
FLOAT32 = 4e-6


def printed_bounds(said) -> list[float]:
    return [float(found[1]) for line in said if (found := re.search(r"no value by more than ([0-9.e+-]+)", line))]


def messages(grid, model, kind: str = "train") -> list[Message]:
    content = RecordDict({"arrays": as_record(model), "config": ConfigRecord({"server-round": 1})})
    return [Message(content, node, kind) for node in grid.get_node_ids()]


def one_round(grid, model=None, kind: str = "train", timeout=3600.0, **options):
    """The single reply of a secure round, or None if it was lost."""
    secure = SecureGrid(grid, **options)
    replies = list(secure.send_and_receive(messages(grid, model or new_model(), kind), timeout=timeout))
    assert len(replies) <= 1
    return replies[0] if replies else None


def assert_mean(reply, nodes, model=None, train=trained, error: float = FLOAT32) -> None:
    model = model or new_model()
    expected, found = mean(model, nodes, train), model_in(reply)
    assert list(found) == list(model)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=error)
    weight = sum(train(node, model)[1]["num-examples"] for node in nodes)
    assert reply.content["metrics"]["num-examples"] == pytest.approx(weight, abs=1e-6)


def envelope_of(message: Message) -> dict:
    return dict(message.content.config_records["ccesa"])


#: What the charters of these tests say about learning: metrics that the apps here report as numbers.
LEARNING = Learning(metrics=("accuracy", "loss"))


def enrol(tmp_path, sites: int, helping: Iterable[int] = (), **agreed) -> tuple[Charter, dict[int, dict]]:
    """A charter of so many sites and these nodes as helpers, and the nodes' configurations, all in files."""
    members, helping = [*number(sites)], [*helping]
    identities = {node: Identity.new() for node in sorted({*members, *helping})}
    everyone = ([identities[node] for node in nodes] for nodes in (members, helping))
    charter = make_charter(next(everyone), helpers=next(everyone), **{"bits": 64, "learning": LEARNING, **agreed})
    (tmp_path / "charter.toml").write_text(str(charter))
    configs = {}
    for node, one in identities.items():
        one.save(tmp_path / f"{node}.key")
        configs[node] = {
            "ccesa-identity": str(tmp_path / f"{node}.key"),
            "ccesa-charter": str(tmp_path / "charter.toml"),
            **({"ccesa-memory": str(tmp_path / f"memory-{node}")} if node in helping else {}),
        }
    return charter, configs


def with_charter(configs, node: int, charter: Charter, path) -> dict[int, dict]:
    """The same nodes, and one of them has another charter."""
    path.write_text(str(charter))
    return {**configs, node: {**configs[node], "ccesa-charter": str(path)}}
