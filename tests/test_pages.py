"""The pages of the site: all are in the navigation, all names in the reference, and what they show comes out.

A page of the tutorial or of the recipes is followed from top to bottom in an empty folder. Blocks with a
title are files. A ``text`` block after one of Python is what it prints, and so are the lines after a command;
``…`` stands for anything. Commands that do not end by themselves, or change the machine, are only read.
"""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest
import yaml

import ccesa
import commands
from ccesa import errors, privacy
from test_reference import public_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FOLLOWED = sorted([*(DOCS / "tutorial").glob("*.md"), *(DOCS / "how-to").glob("*.md")])
BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
#: Bytes that are others whenever something is run: in hexadecimal, as a digest, as a key.
RANDOM = re.compile(r"\b(?:[0-9a-f]{4}\s+){15}[0-9a-f]{4}\b|\b[0-9a-f]{8}\b|[\w+/]{43}=")
#: Words of a command that is not run here.
NOT_RUN = {
    "audit",
    "for",
    "make",
    "git",
    "cd",
    ".",
    "serve",
    "join",
    "pip",
    "flwr",
    "sudo",
    "export",
    "results",
    "demo",
}


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
    names = {f"ccesa.{one.name}" for one in public_names()} | {
        f"ccesa.privacy.{name}" for name in privacy.__all__
    }
    aliases = {f"ccesa.{name}" for name in privacy.__all__}  # shown where they are
    places = {"ccesa.AggregatedModels": "ccesa.simulate.AggregatedModels"}
    places |= {f"ccesa.{name}": f"ccesa.quantize.{name}" for name in ("Mean", "Quantized")}
    assert {places.get(name, name) for name in names - aliases} <= shown
    assert {*shown} >= {f"ccesa.{name}" for name in ccesa.__all__ if name not in ("plan", *privacy.__all__)}


def test_every_failure_is_in_the_recipe_for_failures():
    text = (DOCS / "how-to" / "failures.md").read_text(encoding="utf-8")
    kinds = [
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.CcesaError)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        if kind is not errors.CcesaError:
            assert f"`{kind.__name__}`" in text, kind


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_what_a_page_shows_comes_out(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {}, None
    for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            Path(title).write_text(text, encoding="utf-8")
        elif kind == "python":
            printed = output_of(lambda text=text: exec(text, names))  # noqa: S102 - our own words
        elif kind == "text" and printed is not None:
            assert fits(printed, text), printed
        elif kind == "console":
            for command, expected in commands_in(text):
                follow(command, expected)
        printed = printed if kind == "python" else None


def output_of(call) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call()
    return out.getvalue()


def fits(printed: str, shown: str) -> bool:
    """Whether something was printed as it is shown, up to spaces at the ends of lines and random bytes."""
    printed, shown = (
        RANDOM.sub("(random)", re.sub(r" +$", "", one.strip(), flags=re.M)) for one in (printed, shown)
    )
    return bool(re.fullmatch(re.escape(shown).replace("…", ".*"), printed, re.DOTALL))


def commands_in(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what is shown after it; those of a loop one by one."""
    found = []
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        loop = re.fullmatch(r"for i in \$\(seq -w 1 (\d+)\); do (.*); done", command)
        repeated = [loop[2].replace("$i", f"{i + 1:02}") for i in range(int(loop[1]))] if loop else [command]
        found += [(one, expected) for one in repeated]
    return found


def follow(command: str, expected: str) -> None:
    """Run a command, unless it goes on for ever or changes the machine."""
    command, _, file = command.partition(" >> ")
    program, *arguments = shlex.split(command, comments=True)
    if NOT_RUN & {program, *arguments[:1]}:
        return
    if program == "python":
        printed = output_of(lambda: runpy.run_path(arguments[0], run_name="__main__"))
    else:
        assert program == "ccesa", command
        done = commands.run(*arguments)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(printed)
    assert not expected or fits(printed, expected), printed
