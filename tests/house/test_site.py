"""What builds the site: links, lists and pages that are made, without building it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mkdocs", reason="make docs installs it")
pytest.importorskip("pymdownx", reason="make docs installs it")

import markdown
from mkdocs.config import load_config
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, get_files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
CONFIG = load_config(str(ROOT / "mkdocs.yml"))
CONFIG.plugins._current_plugin = "a test"  # as when a hook is called
links, lists, pages = (CONFIG.hooks[f"docs/site/{name}.py"] for name in ("links", "lists", "pages"))
FILES = links.on_files(get_files(CONFIG), CONFIG)


def shown(text: str, uri: str) -> str:
    page = Page(None, FILES.get_file_from_path(uri), CONFIG)
    return links.on_page_markdown(text, page, CONFIG, FILES)


@pytest.mark.parametrize(
    ("uri", "link", "leads"),
    [
        ("index.md", "docs/security.md#workers", "security.md#workers"),
        ("index.md", "docs/decisions", "decisions/README.md"),
        ("index.md", "clients/typescript/README.md", "reference/typescript.md"),
        ("index.md", "docs/pictures/service-page.png", "pictures/service-page.png"),
        ("security.md", "protocol.md", "protocol.md"),
        ("tutorial/flower.md", "../flower.md#settings", "../flower.md#settings"),
        ("deploy.md", "../deploy", "https://github.com/ccesa/ccesa/tree/main/deploy"),
        ("deploy.md", "../deploy/nginx.conf", "https://github.com/ccesa/ccesa/blob/main/deploy/nginx.conf"),
        ("reproduction.md", "../experiments/costs/costs.png", "experiments/costs/costs.png"),
        ("project/security.md", "docs/security.md", "../security.md"),
        ("index.md", "https://semver.org", "https://semver.org"),
        ("index.md", "#install", "#install"),
    ],
)
def test_a_link_leads_to_the_site_or_to_the_repository(uri, link, leads):
    for text in ("[word](%s)", "![picture](%s)", "[`code`](%s)", '<img src="%s">', "[name]: %s"):
        assert shown(text % link, uri) == text % leads


@pytest.mark.parametrize("text", ["`[word](nowhere.md)`", "```md\n[word](nowhere.md)\n```"])
def test_code_has_no_links(text):
    assert shown(text, "index.md") == text


@pytest.mark.parametrize("link", ["nowhere.md", "docs/nowhere.png", "../outside", "src/ccesa/nothing.py#L3"])
def test_a_link_that_leads_nowhere_stops_the_build(link):
    with pytest.raises(PluginError, match="there is no"):
        shown(f"[word]({link})", "index.md")


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://elsewhere.example/a.js">',
        '<img alt="" src="//elsewhere.example/a.png">',
        '<link rel="stylesheet" href="https://elsewhere.example/a.css">',
        '<link href="https://elsewhere.example/a.css" rel="stylesheet">',
        '<link rel="modulepreload" href="//elsewhere.example/a.js">',
        "<img alt='a > b' src='HTTPS://elsewhere.example/a.png'>",
        '<video poster="https://elsewhere.example/a.png">',
        '<p style="background: url(https://elsewhere.example/a.png)">',
        '<style>@import "https://elsewhere.example/a.css";</style>',
        '<pre class="mermaid"><code>graph LR</code></pre>',
    ],
)
def test_a_page_that_fetches_something_stops_the_build(text):
    page = Page(None, File.generated(CONFIG, "page.md", content=""), CONFIG)
    with pytest.raises(PluginError, match="fetches"):
        links.on_post_page(f"<html>{text}", page, CONFIG)
    named = '<link rel="canonical" href="https://here.example/page.html"><style>a { color: red }</style>'
    for text in ('<a href="https://elsewhere.example">url(https://elsewhere.example)</a>', named):
        assert links.on_post_page(text, page, CONFIG) == text


def test_the_search_has_a_cell_of_a_notebook_once():
    button = '<div class="zeroclipboard-container">Copied!</div>'
    copied = '<div class="clipboard-copy-txt" id="cell-1">x = 1</div>'
    notebook, other = (Page(None, File.generated(CONFIG, name, content=""), CONFIG) for name in ("a.ipynb", "a.md"))
    html = f'<div class="highlight">x = 1</div>{button}{copied}'
    assert pages.on_page_content(html, notebook, CONFIG, FILES).count("<div data-search-exclude class=") == 2
    assert pages.on_page_content(html, other, CONFIG, FILES) == html


ITEM = st.sampled_from(["word", "word\n  goes on", "word\n\n  another part", "word\n\n      code", "a\n  - b\n  - c"])


@given(st.lists(ITEM, min_size=1), st.sampled_from(["", "a paragraph\n", "a paragraph\n\n"]))
def test_lists_are_those_of_commonmark(items, before):
    text = before + "\n".join(f"- {item}" for item in items) + "\n\nafter"
    tokens = lists.COMMONMARK.parse(text)
    html = markdown.markdown(lists.rewritten(text.splitlines(), tokens), extensions=["pymdownx.superfences"])
    for kind, tag in {"list_item_open": "<li>", "code_block": "<pre>", "bullet_list_open": "<ul>"}.items():
        assert html.count(tag) == sum(token.type == kind for token in tokens), html


def test_a_page_that_differs_from_the_forge_stops_the_build():
    page = Page(None, File.generated(CONFIG, "page.md", content="- a\n- b"), CONFIG)
    lists.on_page_markdown("- a\n- b", page, CONFIG, Files([]))
    assert lists.on_page_content("<ul><li>a</li><li>b</li></ul>", page, CONFIG, Files([]))
    with pytest.raises(PluginError, match="on the forge"):
        lists.on_page_content("<p>- a - b</p>", page, CONFIG, Files([]))


def test_a_picture_in_html_is_a_picture():
    text = '<p>\n<img src="a.png" alt="a">\n</p>\n\nand <img src="b.png" alt="b"> in a line'
    page = Page(None, File.generated(CONFIG, "page.md", content=text), CONFIG)
    lists.on_page_markdown(text, page, CONFIG, Files([]))
    assert lists.on_page_content(text, page, CONFIG, Files([])) == text
    with pytest.raises(PluginError, match="on the forge"):
        lists.on_page_content(text.replace("<img ", "<b ", 1), page, CONFIG, Files([]))


def test_folders_in_the_navigation_are_their_pages(tmp_path):
    for name in ("b.md", "a.md", "README.md", "c.ipynb", "d.txt"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / name).touch()
    unfolded = pages.unfolded([{"One": "one.md"}, {"Many": "folder/"}, {"None": "nowhere/"}], tmp_path)
    assert unfolded == [{"One": "one.md"}, {"Many": [f"folder/{n}" for n in ("README.md", "a.md", "b.md", "c.ipynb")]}]


def test_every_command_and_option_is_on_its_page():
    text = "\n".join(pages.commands())
    for command in ("plan", "charter accept", "identity new", "ledger check", "serve", "join"):
        assert f" `ccesa {command}`\n" in text
    assert "| `--dropout-per-step Q\\|STEP=Q,...` | Instead of --dropout:" in text


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("../security.md", "../security.html"),
        ("../security.md#workers", "../security.html#workers"),
        ("../how-to/plan.md", "../how-to/plan.html"),
        ("https://elsewhere.example/a.md", "https://elsewhere.example/a.md"),
        ("#one-call", "#one-call"),
        ("../../vectors", "../reference/vectors.html"),
        ("../../deploy/nginx.conf", "https://github.com/ccesa/ccesa/blob/main/deploy/nginx.conf"),
    ],
)
def test_a_link_in_a_notebook_leads_to_what_became_of_the_file(link, leads):
    assert linked(link, "notebooks/first_sum.ipynb") == f'<a href="{leads}">'
    assert linked(link, "security.md") == f'<a href="{link}">'  # there links are changed before


def test_a_link_in_a_notebook_that_leads_nowhere_stops_the_build():
    with pytest.raises(PluginError, match="there is no"):
        linked("nowhere.md", "notebooks/first_sum.ipynb")


def linked(link: str, uri: str) -> str:
    page = Page(None, FILES.get_file_from_path(uri), CONFIG)
    return links.on_page_content(f'<a href="{link}">', page, CONFIG, FILES)
