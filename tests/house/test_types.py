"""What a type checker says about a user's own code: nothing, where the code is right."""

import gc
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api")

SOURCE = Path(__file__).parents[2] / "src"
#: Under --strict an unused "type: ignore" is an error itself, so each of them says that there is one.
SCRIPT = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import ccesa

Array = NDArray[Any]


class Tensor:
    def detach(self) -> "Tensor":
        return self


named = [{"w": np.full(3, float(i))} for i in range(4)]
result = ccesa.aggregate(named, weights=range(4), dropout=0.1, clip=1.0, graph=ccesa.Complete())
print(result.mean["w"].sum(), result.survivors[0], result.clipped)
result.mean[0]  # type: ignore[index]
assert_type(result.mean, dict[str, Array])

assert_type(ccesa.aggregate([[np.zeros(3)] for _ in range(4)]).mean, list[Array])
assert_type(ccesa.aggregate((np.zeros(3), np.ones(2)) for _ in range(4)).mean, list[Array])
assert_type(ccesa.aggregate([{"count": np.arange(3)}] * 4).mean["count"], Array)  # their mean is no integer
assert_type(ccesa.aggregate([{"w": Tensor()}] * 4).mean, dict[str, Tensor])
assert_type(ccesa.aggregate([[Tensor()]] * 4).mean, list[Tensor])
asked = ccesa.DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=1, norm=1.0)
assert_type(ccesa.aggregate(named, privacy=asked).noise, float)
ccesa.aggregate(named, privacy=8.0)  # type: ignore[call-overload]
ccesa.aggregate([["no array"]] * 4)  # type: ignore[list-item]
ccesa.aggregate(named, weight=[1.0])  # type: ignore[call-overload]
ccesa.aggregate(named, graph="complete")  # type: ignore[call-overload]

quantizer = ccesa.Quantizer.for_model(named[0], clients=4, clip={"w": 1.0})
assert_type(quantizer.decode(np.zeros(2, np.uint64)).arrays["w"], Array)
parts = ccesa.Quantizer.for_model([np.zeros(3)], clients=4, clip=1.0, max_weight=2.0)
assert_type(parts.decode(np.zeros(2, np.uint64)).arrays[0], Array)
tensors = ccesa.Quantizer.for_model({"w": Tensor()}, clients=4, clip=1.0)
assert_type(tensors.decode(np.zeros(2, np.uint64)).arrays["w"], Tensor)


def length_of(one: ccesa.Quantizer) -> int:
    return one.length


print(length_of(quantizer), length_of(parts))
try:
    server = ccesa.Server(ccesa.RoundConfig(clients=4, length=3))
except ccesa.FaultyClient as fault:
    print(fault.client)
"""


def test_a_users_script_passes_mypy_strict(tmp_path, monkeypatch):
    """The package is read as an installed one is: only what mypy says about the script counts."""
    monkeypatch.setattr(gc, "unfreeze", lambda: None)  # of mypy, after which every search would be for all tests again
    monkeypatch.setenv("MYPYPATH", str(SOURCE))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path}"]
    said, trouble, status = mypy.run([*options, str(script)])
    assert (status, trouble) == (0, ""), said
