"""Lists are read as on the forge: where CommonMark is content, the site's Markdown wants four spaces.

Afterwards every page has as many lists, tables, pictures and blocks of code as CommonMark sees in it, or the
site is not built.
"""

import re
from collections import Counter

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

COMMONMARK = MarkdownIt("commonmark").enable("table")
MARKER = re.compile(r" *(?:[-+*]|\d+[.)]) +")
#: What is counted: CommonMark's name and HTML's.
KINDS = {"list_item_open": "li", "table_open": "table", "image": "img", "fence": "pre", "code_block": "pre"}
_counted: dict[str, Counter[str]] = {}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write lists as the site's Markdown wants them."""
    tokens = COMMONMARK.parse(markdown)
    every = [one for token in tokens for one in (token, *(token.children or []))]
    written = (one.content for one in every if one.type in ("html_block", "html_inline"))
    _counted[page.file.src_uri] = Counter(KINDS[one.type] for one in every if one.type in KINDS)
    _counted[page.file.src_uri]["img"] += sum(text.count("<img ") for text in written)
    return rewritten(markdown.splitlines(), tokens)


def rewritten(lines: list[str], tokens: list[Token]) -> str:
    """Return the lines with empty ones around lists and longer items, and items indented by four."""
    depth, written, gaps = 0, list(lines), set[int]()
    for token in tokens:
        depth += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        first, end = token.map or (0, 0)
        if token.type.endswith("_list_open") and not depth:
            gaps.add(first)
        if token.type == "list_item_open" and (marker := MARKER.match(lines[first])):
            written[first] = "    " * (depth - 1) + lines[first].lstrip()
            for place in range(first + 1, end):
                written[place] = "    " * depth + inside(lines[place], marker.end())
            if not all(map(str.strip, lines[first:end])):
                gaps.add(end)
    return "\n".join(empty(line) + line if place in gaps else line for place, line in enumerate(written))


def empty(line: str) -> str:
    """Return an empty line, in a quotation where this one is."""
    return line[: len(line) - len(line.lstrip("> "))].rstrip() + "\n"


def inside(line: str, column: int) -> str:
    """Return an item's line from the item's column on; one that goes on lazily may start before it."""
    return line[column:] if not line[:column].strip() else line.lstrip()


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Compare with what CommonMark saw, unless there is more on the page than was written on it."""
    expected = _counted.get(page.file.src_uri, Counter())
    found = Counter({kind: len(re.findall(rf"<{kind}[ >]", html)) for kind in KINDS.values()})
    made = 'class="doc ' in html or "made here" in (page.file.content_string or "")
    if page.file.src_uri.endswith(".md") and not made and +found != +expected:
        raise PluginError(f"{page.file.src_uri} has {dict(found)}, and on the forge {dict(expected)}")
    return html
