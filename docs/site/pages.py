"""What is made when the site is built: folders in the navigation, commands, the tree of errors, search."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from ccesa import errors
from ccesa.cli.app import app

MARK = re.compile(r"<!-- made here: (.*) -->")
#: The button that copies a notebook's cell, and what it copies: the code once more.
COPY = re.compile(r'(?=class="(?:zeroclipboard-container|clipboard-copy-txt)")')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation names the folder."""
    config.nav = unfolded(config.nav, Path(config.docs_dir))
    return config


def unfolded(entry: Any, docs: Path) -> Any:
    """Return an entry of the navigation with pages instead of folders, and without those that are empty."""
    if isinstance(entry, dict):
        [(title, inner)] = entry.items()
        inner = unfolded(inner, docs)
        return {title: inner} if inner else None
    if isinstance(entry, list):
        return [one for one in (unfolded(inner, docs) for inner in entry) if one]
    if entry.endswith("/"):
        pages = (path for kind in ("*.md", "*.ipynb") for path in (docs / entry).glob(kind))
        names = sorted((path.name for path in pages), key=lambda name: (name != "README.md", name))
        return [entry + name for name in names]
    return entry


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what is made here where a page says so. The first page has no others beside it to list."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    return re.sub(MARK, lambda mark: "\n".join(MADE[mark[1]]()), markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep what only the copy button needs out of the search, which would show all code twice."""
    return COPY.sub("data-search-exclude ", html) if page.file.src_uri.endswith(".ipynb") else html


def tree() -> Iterator[str]:
    """Yield the tree of exceptions, as their module has it."""
    yield from ["```text", inspect.cleandoc(errors.__doc__.partition("::")[2]), "```"]


def commands() -> Iterator[str]:
    top = typer.main.get_command(app)
    yield "## `ccesa`\n"
    yield from described(top, top.make_context("ccesa", [], resilient_parsing=True))
    yield f"{top.epilog}\n"
    yield from subcommands(top, "ccesa")


def subcommands(group: Any, path: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        context = command.make_context(f"{path} {name}", [], resilient_parsing=True)
        yield f"{'#' * len(context.info_name.split())} `{context.info_name}`\n"
        yield from described(command, context)
        if hasattr(command, "commands"):
            yield from subcommands(command, context.info_name)


def described(command: Any, context: Any) -> Iterator[str]:
    """Yield what a command is for, how it is called, and a table of its options."""
    usage = command.collect_usage_pieces(context)
    yield f"{command.help}\n"
    yield f"```console\n$ {' '.join([context.info_name, *usage])}\n```\n"
    records = [one.get_help_record(context) for one in command.get_params(context)]
    rows = [f"| {spelled(names)} | {escaped(text)} |" for names, text in filter(None, records)]
    yield "\n".join(["| option | |", "|---|---|", *rows, ""])


def spelled(names: str) -> str:
    return f"`{names}`".replace("|", "\\|")


def escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")


#: What pages ask for.
MADE = {"the tree": tree, "the commands": commands}
