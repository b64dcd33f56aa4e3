"""Pages from elsewhere in the repository, and links that leave docs/, work on the site as on the forge."""

import posixpath
import re
from collections.abc import Callable, Iterator
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
#: What a browser fetches by itself, from elsewhere.
FETCHED = re.compile(
    r"<(?:(?:script|img|iframe|source)\b[^>]*\bsrc(?:set)?|link\b[^>]*\brel=\"(?:stylesheet|preconnect|icon)\"[^>]*\bhref)"
    r"=\"(?:https?:)?//[^\"]*"
)
ELSEWHERE = re.compile(r"[a-z]+:|#")


def with_links(text: str, change: Callable[[str], str]) -> str:
    """Return Markdown with each target of a link changed, where it is a path."""
    parts = CODE.split(text)
    parts[::2] = [
        TARGET.sub(lambda one: one[0] if ELSEWHERE.match(one[0]) else change(one[0]), part)
        for part in parts[::2]
    ]
    return "".join(parts)


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
    uris = {at_home(file.src_uri, config): file.src_uri for file in files}
    uris |= {file.src_uri: file.src_uri for file in files if Path(file.src_uri).suffix in PICTURES}
    source = at_home(page.file.src_uri, config)

    def change(link: str) -> str:
        path, hash_, anchor = link.partition("#")
        path = target_of(source, path)
        uri = uris.get(path) or uris.get(f"{path}/README.md")
        if uri:
            return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + hash_ + anchor
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{config.repo_url}/{kind}/{config.extra['revision']}/{path}{hash_}{anchor}"

    return with_links(markdown, change)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would fetch anything from another machine."""
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} fetches {found[0]}")
    return output
