"""Nothing of a node passes in clear: a search for the values themselves."""

import itertools
import struct

import numpy as np
import pytest

from ccesa.flower import SecureGrid
from ccesa.policy import Policy
from ccesa.protocol import messages as m
from flower_grid import SILENT, MemoryGrid, all_say, lose, make_app, model_in, new_model, number, trained
from flower_rounds import NODES, STEPS, messages, one_round


def secret_train(node, model):
    arrays, _ = trained(node, model)
    return arrays, {"num-examples": secret_weight(node), "loss": secret_loss(node)}


def secret_weight(node: int) -> int:
    return 314159265358 + 7919 * node


def secret_loss(node: int) -> float:
    return 314.15926535897 * node


def traces(nodes, model) -> dict[str, bytes]:
    """The nodes' own values in every form in which they could pass."""
    found = {}
    for node in nodes:
        arrays, metrics = secret_train(node, model)
        for name, value in arrays.items():
            delta = value.astype(np.float64) - model[name]
            for kind, row in (("value", value), ("delta", delta)):
                for dtype in ("<f4", ">f4", "<f8", ">f8"):
                    flat = row.astype(dtype).ravel()
                    pairs = flat.reshape(-1, 2) if dtype.endswith("4") else flat.reshape(-1, 1)
                    found |= {f"{node} {name} {kind} {dtype} {i}": one.tobytes() for i, one in enumerate(pairs)}
        for name, number_ in metrics.items():
            found |= {f"{node} {name} {form}": data for form, data in forms(number_).items()}
    return found


def forms(value: int | float) -> dict[str, bytes]:
    made = {
        "text": repr(value).encode(),
        "short text": f"{value:.9g}".encode(),
        "float64": struct.pack("<d", value),
        "float64, other end": struct.pack(">d", value),
    }
    if isinstance(value, int):
        made |= {
            "int64": struct.pack("<q", value),
            "int64, other end": struct.pack(">q", value),
            "varint": varint(value),
            "hex": f"{value:x}".encode(),
        }
    return made


def varint(value: int) -> bytes:
    digits = []
    while value:
        digits.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
    return bytes(digits)


def seen_in(grid, wanted: dict[str, bytes]) -> set[str]:
    data = b"\0\0\0\0".join(one.data for one in grid.passed)
    return {name for name, trace in wanted.items() if trace in data}


@pytest.mark.parametrize("lost", [None, *STEPS])
def test_nothing_of_a_node_passes_in_clear(lost):
    model = new_model()
    faults = lose(SILENT, lost, 1003) if lost else lambda *what: None
    grid = MemoryGrid(make_app(secret_train), NODES, faults=faults)
    reply = one_round(grid, model, max_weight=2.0**40, policy=Policy.wait_for_all(0.3))
    assert reply.content["metrics"]["num-examples"] > 1e12
    wanted = traces(number(NODES), model)
    assert len(wanted) > 1000
    assert seen_in(grid, wanted) == set()


def test_the_search_finds_what_passes_in_clear():
    """The same without secure aggregation."""
    model = new_model()
    grid = MemoryGrid(make_app(secret_train), NODES, node_configs=all_say(NODES, {"ccesa-plain": True}))
    grid.send_and_receive(messages(grid, model))
    found = seen_in(grid, traces(number(NODES), model))
    for node in number(NODES):
        assert f"{node} w value <f4 0" in found
        assert {f"{node} num-examples varint", f"{node} loss float64"} & found


def test_evaluations_do_not_pass_in_clear_either():
    def evaluate(node, model):
        return {"num-examples": secret_weight(node), "accuracy": secret_loss(node)}

    grid = MemoryGrid(make_app(evaluate=evaluate), NODES)
    one_round(grid, kind="evaluate", max_weight=2.0**40)
    wanted = {f"{node} {form}": data for node in number(NODES) for form, data in forms(secret_weight(node)).items()}
    wanted |= {f"{node} {form}": data for node in number(NODES) for form, data in forms(secret_loss(node)).items()}
    assert seen_in(grid, wanted) == set()


def test_two_rounds_over_the_same_model_that_differ_by_one_node_give_it_away():
    """No masks help against this, and docs/flower.md says so: nodes that allow it are given away."""
    allow = {"ccesa-attempts": 2, "ccesa-releases": 2}
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, allow))
    secure, model = SecureGrid(grid), new_model()
    totals, weights, losses = [], [], []
    for some in (messages(grid, model), messages(grid, model)[:-1]):
        (reply,) = secure.send_and_receive(some)
        weights.append(reply.content["metrics"]["num-examples"])
        losses.append(weights[-1] * reply.content["metrics"]["loss"])
        totals.append(weights[-1] * model_in(reply)["w"])
    arrays, metrics = trained(1000 + NODES, model)
    weight = weights[0] - weights[1]
    assert weight == pytest.approx(metrics["num-examples"])
    assert (losses[0] - losses[1]) / weight == pytest.approx(metrics["loss"], rel=1e-5)
    np.testing.assert_allclose((totals[0] - totals[1]) / weight, arrays["w"], rtol=0, atol=1e-4)


def test_masked_vectors_look_like_noise():
    """All nodes send the same update; what they send has nothing in common, and no small words."""

    def train(node, model):
        return model, {"num-examples": 1}

    grid = MemoryGrid(make_app(train), NODES)
    model = {"w": np.zeros(20_000, np.float32)}
    one_round(grid, model)
    replies = [one.content.config_records["ccesa"]["reply"] for one in grid.replies("mask")]
    words = np.array([np.frombuffer(m.decode(one, len(one)).vector, "<u4") for one in replies])
    assert abs((words / 2**32).mean() - 0.5) < 0.01
    assert (words < 2**16).mean() < 1e-3
    for one, other in itertools.pairwise(words):
        assert (one == other).sum() <= 1
