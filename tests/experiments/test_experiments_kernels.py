"""Runs the kernels of experiments/triton_kernels.py by Triton's interpreter, where torch and Triton are."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "support"


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")), reason="needs torch and triton"
)
def test_the_kernels_do_what_torch_does():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "interpreted.py")]
    found = subprocess.run(
        command, cwd=HERE.parent, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout
    assert "7 passed" in found.stdout
