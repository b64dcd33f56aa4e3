"""Secure rounds in Flower's own simulation engine, with nodes lost in every step."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flower_simulation as simulation

pytestmark = [
    pytest.mark.flower,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs flwr[simulation]"),
]


def test_twenty_nodes_with_one_lost_in_every_step(tmp_path):
    environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(
        [sys.executable, str(Path(simulation.__file__)), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads((tmp_path / "results.json").read_text())
    lost = {simulation.SILENT, *(node for step, node in simulation.FAILING.items() if step != "unmask")}
    nodes = range(simulation.NODES)
    late = {simulation.SILENT, simulation.FAILING["mask"], simulation.FAILING["unmask"]}
    groups = [[node for node in nodes if node not in out] for out in (lost, late, set())]
    expected = sum(mean_of(group, simulation.update) for group in groups)
    np.testing.assert_allclose(found["w"], expected, rtol=0, atol=1e-5)
    for place, group in enumerate(groups, 1):
        assert found["metrics"][str(place)]["node"] == pytest.approx(mean_of(group, float), abs=1e-5)
        assert f"{len(group)} of 20 nodes in the sum" in done.stderr + done.stdout


def mean_of(nodes, value):
    return np.average([value(node) for node in nodes], axis=0, weights=[simulation.weight(node) for node in nodes])
