"""Local noise by Flower's own mod, for comparison: each node alone hides its change, from everybody."""

import math
from pathlib import Path

import numpy as np
import pytest
from flwr.clientapp.mod import LocalDpMod

from ccesa.flower import SecureGrid
from ccesa.flower.server.rounds import NoisyRounds
from ccesa.privacy import DifferentialPrivacy
from flower_grid import MemoryGrid, make_app, model_in, number
from flower_noise import changed, large_model, plain_mean, residue
from flower_rounds import messages

DEMAND = DifferentialPrivacy(epsilon=1.0, delta=1e-5, rounds=1, norm=1.0)
DOCS = Path(__file__).parents[2] / "docs" / "flower.md"


def equally(node, model):
    return changed(node, model)[0], {"num-examples": 1}


def local(nodes: int) -> float:
    """The standard deviation in the mean, by the formula that the mod has for a single node."""
    return DEMAND.norm * math.sqrt(2 * math.log(1.25 / DEMAND.delta)) / DEMAND.epsilon / math.sqrt(nodes)


def ours(nodes: int) -> float:
    noise = NoisyRounds(privacy=DEMAND).terms("train", nodes, large_model(), None).mechanism
    return noise.noise(nodes) / nodes


@pytest.mark.parametrize("nodes", [10, 20])
def test_the_noise_of_both_in_the_mean_of_one_round(nodes):
    """Through the same masks, at the same epsilon and delta."""
    np.random.seed(1)  # which the mod draws from
    mod = LocalDpMod(clipping_norm=DEMAND.norm, sensitivity=DEMAND.norm, epsilon=DEMAND.epsilon, delta=DEMAND.delta)
    model, found = large_model(), []
    for mods, settings in (([mod], {"clip": 64.0}), ([], {"privacy": DEMAND})):
        grid = MemoryGrid(make_app(equally, train_mods=mods), nodes)
        (reply,) = SecureGrid(grid, **settings).send_and_receive(messages(grid, model))
        found.append(residue(model_in(reply), plain_mean(model, number(nodes), equally)))
    assert found[0] == pytest.approx(local(nodes), rel=0.06)
    assert found[1] == pytest.approx(ours(nodes), rel=0.06)
    assert found[0] > 3 * found[1]


@pytest.mark.parametrize("nodes", [10, 20, 100, 1000])
def test_the_table_of_the_page(nodes):
    row = f"| {nodes:,} | {local(nodes):.3g} | {ours(nodes):.3g} | {local(nodes) / ours(nodes):.3g} |"
    assert row in DOCS.read_text(), row
