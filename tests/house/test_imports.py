"""What ``import ccesa`` loads: the protocol, and nothing that only a planner or a command needs."""

import subprocess
import sys
from importlib import metadata

import pytest

import ccesa

LATER = ["scipy", "typer", "rich", "sklearn", "matplotlib", "ccesa.plan", "ccesa.simulate", "ccesa.cli"]


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("names", ["ccesa", "ccesa; ccesa.Client, ccesa.Server, ccesa.Quantizer, ccesa.Charter"])
def test_importing_the_package_loads_no_planner(names):
    assert printed(f"import sys, {names}; print([name for name in {LATER} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "import ccesa; print(ccesa.plan.plan(100, 0.1).degree)",
        "from ccesa import plan; print(plan.plan(100, 0.1).degree)",
        "from ccesa import *; print(plan.plan(100, 0.1).degree)",
    ],
)
def test_the_planner_is_there_when_it_is_asked_for(code):
    assert printed(code) == "34"


def test_a_command_begins_before_anything_is_loaded_that_takes_long():
    """Whoever stops it in between is told so, and sees no traceback of an import."""
    long = ["numpy", "msgspec", "typer", "cryptography"]
    assert printed(f"import sys, ccesa.cli; print([name for name in {long} if name in sys.modules])") == "[]"


def test_modules_are_there_without_being_imported_one_by_one():
    assert printed("import ccesa; print(ccesa.memory.FolderMemory is ccesa.FolderMemory)") == "True"


def test_every_public_name_is_there_and_listed():
    assert set(ccesa.__all__) <= set(dir(ccesa))
    assert "__version__" in dir(ccesa)
    for name in [*ccesa.__all__, "__version__"]:
        assert getattr(ccesa, name) is not None
    assert printed("import ccesa; print(set(ccesa.__all__) <= set(dir(ccesa)))") == "True"


def test_a_checkout_that_was_never_installed_has_no_version(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert ccesa.__version__ == "unknown"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'ccesa' has no attribute 'plans'"):
        _ = ccesa.plans
