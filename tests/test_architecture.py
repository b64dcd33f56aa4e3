"""The rules of the house: which room may use which, and what never enters the inner ones."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "ccesa"
#: Rooms from the inside out. A room imports only rooms that stand before it, or itself.
ORDER = [
    {"evidence"},
    {"errors"},
    {"extras", "files", "guards", "labels", "layout", "parts", "wire", "words"},
    {"digits"},
    {"crypto", "quantize"},
    {"identity", "thresholds"},
    {"chances"},
    {"graphs"},
    {"config"},
    {"floor"},
    {"charter"},
    {"protocol"},
    {"plan"},
    {"simulate"},
    {"demo", "flower"},
    {"cli"},
    {"__main__"},
]
INNER = [
    "evidence",
    "errors",
    "files",
    "labels",
    "words",
    "wire",
    "parts",
    "crypto",
    "identity",
    "thresholds",
    "chances",
    "graphs",
    "config",
    "floor",
    "charter",
    "protocol",
]
FORBIDDEN = {"socket", "asyncio", "time", "datetime", "logging", "random", "subprocess", "http"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    rank = {name: place for place, rooms in enumerate(ORDER) for name in rooms}
    for name in imported(path):
        if name.startswith("ccesa."):
            other = name.split(".")[1]
            assert other == room(path) or rank.get(other, -1) < rank[room(path)] or other == "__version__", (
                name
            )


@pytest.mark.parametrize(
    "path", [p for p in modules() if room(p) in INNER], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_inner_rooms_have_no_sockets_clocks_logs_or_weak_randomness(path):
    used = {name.split(".")[0] for name in imported(path)}
    clocks = {"time", "datetime"} if room(path) == "charter" else set()  # a charter expires
    assert not used & FORBIDDEN - clocks
    assert "np.random" not in path.read_text()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_torch_is_left_to_those_who_have_it(path):
    assert not any(name.split(".")[0] == "torch" for name in imported(path))


def test_only_one_file_calls_the_cryptographic_library():
    callers = [p.name for p in modules() if any(name.startswith("cryptography") for name in imported(p))]
    assert callers == ["primitives.py"]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_assert_and_no_bare_except(path):
    """But where the user's own code is called, and the text of its errors must stay on the node."""
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert)
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            if path.relative_to(PACKAGE).as_posix() == "flower/node/mod.py":
                continue
            assert ast.unparse(node.type) not in ("Exception", "BaseException")


def test_the_round_fits_on_one_page():
    assert len((PACKAGE / "protocol" / "round.py").read_text().splitlines()) < 100
