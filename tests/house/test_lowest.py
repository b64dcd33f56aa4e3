"""Lower bounds: every requirement has one, and the lowest versions are made from it."""

import tomllib

import pytest

from lowest import PROJECT, lowest, requirements

EXTRAS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("requirement", requirements(EXTRAS))
def test_every_requirement_has_a_lower_bound(requirement):
    name, _, version = lowest(requirement).partition("==")
    assert requirement.startswith(name)
    assert version in requirement


@pytest.mark.parametrize(
    ("requirement", "pinned"),
    [
        ("scipy>=1.11.3", "scipy==1.11.3"),
        ("ruff~=0.17.4", "ruff==0.17.4"),
        ("flwr>=1.40,<1.42", "flwr==1.40"),
        ("atheris>=3.0; platform_system == 'Linux'", "atheris==3.0"),
    ],
)
def test_the_lowest_version_is_the_bound(requirement, pinned):
    assert lowest(requirement) == pinned


@pytest.mark.parametrize("requirement", ["scipy", "scipy<2", "scipy!=1.11.1", "scipy>1.11.2", "scipy>=1.11.3,!=1.12"])
def test_a_requirement_without_a_lowest_version_is_refused(requirement):
    with pytest.raises(SystemExit, match="no lower bound"):
        lowest(requirement)


def test_extras_add_to_what_the_package_needs():
    core = requirements([])
    assert {line.split(">=")[0] for line in core} >= {"numpy", "scipy", "cryptography"}
    assert requirements(["plots"]) == [*core, *EXTRAS["plots"]]
    assert not any("ccesa" in line for line in requirements(EXTRAS))
