"""What is said where an optional package is missing, and that it helps."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
#: A part, the module it needs, and the extra that brings it.
PARTS = {
    "the demo": ("from ccesa.demo import learning; learning.digits(10, 1)", "demo"),
    "ccesa.flower": ("import ccesa.flower", "flower"),
}
MODULES = {"demo": "sklearn", "flower": "flwr"}


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_package_is_named_with_what_installs_it(part):
    code, extra = PARTS[part]
    hide = f"import sys; sys.modules[{MODULES[extra]!r}] = None"
    end = f"""
{hide}
from ccesa import ConfigError
try:
    {code}
except ConfigError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", end], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"{part} needs "), done.stderr
    assert f"in a checkout of ccesa, pip install '.[{extra}]'" in done.stdout


def test_an_older_cryptographic_library_does_for_everything_but_the_hybrid_agreement():
    code = """
import sys
sys.modules["cryptography.hazmat.primitives.asymmetric.mlkem"] = None
import ccesa
from ccesa.plan import calibrate, plan, price
from ccesa.simulate import simulate
rates = calibrate()
assert simulate(ccesa.RoundConfig(clients=4, length=8)).exact
assert price(plan(30, 0.1), rates).client_seconds > 0
for work in (
    lambda: price(plan(30, 0.1, agreement="x25519-mlkem768"), rates),
    lambda: ccesa.Client(
        ccesa.RoundConfig(clients=4, length=8, agreement="x25519-mlkem768", accept=True), 0, [0] * 8
    ),
):
    try:
        work()
    except ccesa.ConfigError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert "cryptography 48 or newer" in lines[0]
    assert "cryptography>=48" in lines[1]


def test_every_hint_names_an_extra_that_there_is():
    """None leads to a package index, where the name may be somebody else's."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    sources = list((ROOT / "src").rglob("*.py"))
    assert len(pages) > 5
    for path in [*pages, *sources]:
        for hint in re.findall(r"pip install[^\n`]*", path.read_text(encoding="utf-8")):
            assert "'ccesa" not in hint, f"{path}: {hint}"
            for extra in re.findall(r"\.\[(\w+)\]", hint):
                assert extra in EXTRAS, f"{path}: {hint}"
