"""Pages of the site are in its navigation, public names in its reference, and what is shown comes out."""

import re
from pathlib import Path

import pytest
import yaml

import ccesa
from ccesa import errors, privacy
from followed import fits, follow
from test_reference import public_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLLOWED = sorted([*(DOCS / "tutorial").glob("*.md"), *(DOCS / "how-to").glob("*.md")])


class Nav(yaml.SafeLoader):
    """Reads mkdocs.yml without the objects that only the build needs."""


Nav.add_multi_constructor("", lambda loader, suffix, node: None)


def test_a_page_is_in_the_navigation():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=Nav)  # noqa: S506 - ours
    listed = set(entries(settings["nav"]))
    pages = {str(path.relative_to(DOCS)) for kind in ("*.md", "*.ipynb") for path in DOCS.rglob(kind)}
    assert len(pages) > 40
    folders = tuple(entry for entry in listed if entry.endswith("/"))
    assert not [page for page in pages if page not in listed and not page.startswith(folders)]
    outside = settings["extra"]["outside"]
    assert set(outside) <= listed
    assert all((ROOT / path).is_file() for path in outside.values())
    assert {entry for entry in listed if not entry.endswith("/")} <= pages | set(outside)


def entries(nav):
    """All files and folders that a navigation names."""
    for one in nav.values() if isinstance(nav, dict) else nav:
        yield from [one] if isinstance(one, str) else entries(one)


def test_a_public_name_is_in_the_reference():
    shown = set()
    for page in (DOCS / "reference").glob("*.md"):
        shown |= set(re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    names = {f"ccesa.{one.name}" for one in public_names()} | {f"ccesa.privacy.{name}" for name in privacy.__all__}
    aliases = {f"ccesa.{name}" for name in privacy.__all__}  # shown where they are
    places = {"ccesa.AggregatedModels": "ccesa.simulate.AggregatedModels"}
    places |= {f"ccesa.{name}": f"ccesa.values.quantize.{name}" for name in ("Mean", "Quantized")}
    assert {places.get(name, name) for name in names - aliases} <= shown
    assert {*shown} >= {f"ccesa.{name}" for name in ccesa.__all__ if name not in ("plan", *privacy.__all__)}


def test_every_failure_is_in_the_recipe_for_failures():
    text = (DOCS / "how-to" / "failures.md").read_text(encoding="utf-8")
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.CcesaError)]
    assert len(kinds) > 20
    for kind in kinds:
        if kind is not errors.CcesaError:
            assert f"`{kind.__name__}`" in text, kind


@pytest.mark.parametrize(
    ("heading", "base"),
    [
        ("one reply is refused", errors.FaultyClient),
        ("there is no sum", errors.RoundFailed),
        ("an invalid call", errors.UsageError),
    ],
)
def test_the_recipe_sorts_failures_as_their_tree_does(heading, base):
    text = (DOCS / "how-to" / "failures.md").read_text(encoding="utf-8")
    (section,) = (part for part in text.split("\n## ") if heading in part.splitlines()[0])
    named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert len(named) > 2
    assert all(issubclass(getattr(errors, name), base) for name in named)


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_what_a_page_shows_comes_out(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n",
        "```python\nprint(undefined)\n```\n",
        '```python title="one.py"\nprint(1)\n```\n\n```console\n$ python one.py\n2\n```\n',
        "```console\n$ ccesa plan --clients 5\nno such line\n```\n",
        "```console\n$ ccesa plan --no-such-option\n```\n",
        "```console\n$ unknown\n```\n",
    ],
)
def test_a_page_that_shows_something_else_is_noticed(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    with pytest.raises((AssertionError, NameError)):
        follow(tmp_path / "page.md")


def test_only_what_is_random_may_differ():
    assert fits("key 0123abcd, 7 of 9  \n", "key ffffffff, 7 of 9")
    assert fits("a\nb\nc", "a\n…\nc")
    assert not fits("key 0123abcd, 7 of 9", "key ffffffff, 8 of 9")
