"""Takes the pictures of the built site that are in docs/pictures: ``python docs/site/pictures.py``.

On the way every page is opened on a small screen. It fails where one is wider than that, logs something or
asks another machine, or where search finds nothing. Pages are opened as files, the hardest case.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
#: Name, page, width, colours.
PICTURES = (
    ("site-home", "index.html", 1440, "light"),
    ("site-dark", "reference/rounds.html", 1440, "dark"),
    ("site-tablet", "how-to/failures.html", 820, "light"),
    ("site-phone", "tutorial/first-sum.html", 390, "light"),
)


def opened(browser: Browser, path: str, width: int, colours: str, wrong: list[str]) -> Page:
    """Open a page, and note what is wrong with it."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
    page.on("console", lambda message: wrong.append(f"{path} logs {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{path}: {error}"))
    page.on("request", lambda one: wrong.extend(elsewhere(path, one.url)))
    page.goto((SITE / path).as_uri())
    if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
        wrong.append(f"{path} is {wide} wide on a screen of {width}")
    return page


def elsewhere(path: str, url: str) -> list[str]:
    return [] if url.startswith("file:") else [f"{path} asks {url}"]


def taken(page: Page, name: str) -> None:
    """Take a picture of what is on the screen, in 128 colours."""
    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(128)
    picture.save(ROOT / "docs" / "pictures" / f"{name}.png", optimize=True)


def searched(page: Page) -> None:
    """Search for a word; it takes longer than the browser waits if nothing is found."""
    page.locator(".md-search__input").click()
    page.keyboard.type("checkpoint")
    page.wait_for_selector(".md-search-result__item")


def main() -> None:
    """Take the pictures, then look at every page."""
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, path, width, colours in PICTURES:
            taken(opened(browser, path, width, colours, wrong), name)
        searched(opened(browser, "index.html", 1440, "light", wrong))
        for file in SITE.rglob("*.html"):
            if file.name != "404.html":  # which has the site's address in it
                opened(browser, str(file.relative_to(SITE)), 390, "light", wrong).close()
        browser.close()
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
