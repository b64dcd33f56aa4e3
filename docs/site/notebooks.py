"""Links in notebooks are to files, as on the forge; on the site they lead to what became of those files."""

import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LINK = re.compile(r'(?<=href=")([^":#]+\.(?:md|ipynb))(?=[#"])')


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files lead to what became of them; a file that is not there stops the build."""
    source = page.file.src_uri
    if not source.endswith(".ipynb"):
        return html

    def change(link: re.Match[str]) -> str:
        target = files.get_file_from_path(
            posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        )
        if target is None:
            raise PluginError(f"{source}: there is no {link[1]}")
        return target.url_relative_to(page.file)

    return LINK.sub(change, html)
