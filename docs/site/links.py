"""Pages from elsewhere in the repository, and links that leave docs/, work on the site as on the forge."""

import posixpath
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PICTURES = {".png", ".svg", ".jpg", ".gif"}
#: Fenced blocks and spans of code, in which nothing is a link.
CODE = re.compile(r"(^ *```.*?^ *```$|(?<!`)`[^`\n]+`(?!`)|``.+?``)", re.MULTILINE | re.DOTALL)
#: Where a link leads: in Markdown, as a definition, or in HTML.
TARGET = re.compile(
    r'(?<=\]\()[^)\s]+|(?<=\]: )\S+$|(?<=\bsrc=")[^"]+|(?<=\bsrcset=")[^"]+|(?<=\bhref=")[^"]+', re.MULTILINE
)
#: Attributes whose address a browser fetches by itself; of links those that only say where something is.
FETCHED = {"src", "srcset", "data", "poster", "background"}
NAMED = {"canonical", "prev", "next", "alternate", "license", "author"}
#: An address on another machine, in an attribute or in a style.
AWAY = re.compile(r"(?:https?:)?//", re.IGNORECASE)
AWAY_IN_STYLE = re.compile(r"(?:url\(|@import)[\s\"']*(?:https?:)?//", re.IGNORECASE)
ELSEWHERE = re.compile(r"[a-z]+:|#")


def with_links(text: str, change: Callable[[str], str]) -> str:
    """Return Markdown with each target of a link changed up to its #, where it is a path."""
    parts = CODE.split(text)
    parts[::2] = [changed(part, change) for part in parts[::2]]
    return "".join(parts)


def changed(text: str, change: Callable[[str], str]) -> str:
    """Return text without code with each target changed."""

    def one(found: re.Match[str]) -> str:
        path, mark, anchor = found[0].partition("#")
        return found[0] if ELSEWHERE.match(found[0]) else change(path) + mark + anchor

    return TARGET.sub(one, text)


def links(text: str) -> Iterator[str]:
    """Yield the paths that Markdown links to, without what follows a #."""
    for part in CODE.split(text)[::2]:
        for target in TARGET.findall(part):
            if not ELSEWHERE.match(target):
                yield target.partition("#")[0]


def at_home(uri: str, config: MkDocsConfig) -> str:
    """Return where in the repository a file of the site is."""
    return config.extra["outside"].get(uri, f"docs/{uri}")


def target_of(source: str, link: str) -> str:
    """Return where in the repository a link leads, from a file in it; it exists, or the site is not built."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if path.startswith("..") or not (ROOT / path).exists():
        raise PluginError(f"{source}: there is no {link}")
    return path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are elsewhere, and the pictures elsewhere that pages show."""
    for uri, path in config.extra["outside"].items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for page in files.documentation_pages():
        if page.src_uri.endswith(".md"):
            for path in outside_pictures(page, config):
                if not files.get_file_from_path(path):
                    files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def outside_pictures(page: File, config: MkDocsConfig) -> Iterator[str]:
    source = at_home(page.src_uri, config)
    for link in links(page.content_string):
        path = target_of(source, link)
        if Path(path).suffix in PICTURES and not path.startswith("docs/"):
            yield path


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages and pictures of the site, else to the repository's address."""

    def change(link: str) -> str:
        file, address = destination(page, link, config, files)
        return posixpath.relpath(file.src_uri, posixpath.dirname(page.file.src_uri) or ".") if file else address

    return with_links(markdown, change)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Do the same in a notebook, which is HTML already."""

    def change(link: str) -> str:
        file, address = destination(page, link, config, files)
        return file.url_relative_to(page.file) if file else address

    return changed(html, change) if page.file.src_uri.endswith(".ipynb") else html


def destination(page: Page, link: str, config: MkDocsConfig, files: Files) -> tuple[File | None, str]:
    """Return the site's file that a link leads to, if there is one, and its address in the repository."""
    path = target_of(at_home(page.file.src_uri, config), link)
    homes = {at_home(file.src_uri, config): file for file in files}
    homes |= {file.src_uri: file for file in files if Path(file.src_uri).suffix in PICTURES}
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    address = f"{config.repo_url}/{kind}/{config.extra['revision']}/{path}"
    return homes.get(path) or homes.get(f"{path}/README.md"), address


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would fetch anything from another machine."""
    parser = Fetches()
    parser.feed(output)
    if parser.found:
        raise PluginError(f"{page.file.src_uri} fetches {parser.found[0]}")
    return output


class Fetches(HTMLParser):
    """Finds what a browser would fetch from another machine, in whatever order attributes are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._styles = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at every attribute that has an address; diagrams are drawn by a script from elsewhere."""
        self._styles = tag == "style"
        given = {name: value or "" for name, value in attrs}
        names = FETCHED | ({"href"} if tag == "link" and not _only_named(given) else set())
        fetched = [given[name] for name in given if name in names and AWAY.match(given[name].strip())]
        diagram = ["a diagram's script"] if "mermaid" in given.get("class", "").split() else []
        if fetched or diagram or AWAY_IN_STYLE.search(given.get("style", "")):
            self.found.append(f"{(*fetched, *diagram, given.get('style'))[0]} in <{tag}>")

    def handle_data(self, data: str) -> None:
        """Look at a style sheet in the page."""
        if self._styles and (found := AWAY_IN_STYLE.search(data)):
            self.found.append(f"{found[0]} in <style>")


def _only_named(given: dict[str, str]) -> bool:
    return set(given.get("rel", "").lower().split()) <= NAMED
