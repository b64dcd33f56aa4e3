"""Draws the pictures of the page, from a real round: ``python tests/typescript/page_pictures.py``."""

import io
from pathlib import Path

from PIL import Image

from browser import chromium
from tabs import Tab, demo, tabs

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
DESK, PHONE = {"width": 1120, "height": 800}, {"width": 390, "height": 800}
PEOPLE = 6


def take(tab: Tab, name: str, height: int, **how: str) -> None:
    """Take a picture of the upper part of a page."""
    tab.page.emulate_media(**how)
    tab.page.mouse.move(0, 0)
    tab.page.set_viewport_size({"width": tab.page.viewport_size["width"], "height": height})
    tab.page.evaluate("scrollTo(0, 0)")
    tab.page.wait_for_timeout(300)
    picture = Image.open(io.BytesIO(tab.page.screenshot()))
    picture.quantize(128).save(FOLDER / f"{name}.png", optimize=True)


def scribble(tab: Tab) -> None:
    """Have the page draw a digit, and press the button."""
    tab.page.get_by_text("A drawing", exact=True).click()
    tab.page.get_by_role("button", name="Draw one for me").click()
    tab.page.get_by_role("button", name="Take part").click()


def main() -> None:
    with demo("--pace", "6") as url, chromium() as browser, tabs(browser, url, PEOPLE, viewport=DESK) as people:
        watching, phone, leaving = people[0], people[1], people[2]
        phone.page.set_viewport_size(PHONE)
        for tab in people:
            scribble(tab)
        for tab in people:
            tab.wait_for("Your value leaves in")
        leaving.close()
        phone.page.locator("#left").wait_for(timeout=30_000)
        take(phone, "browser-phone", 1310)
        watching.result()
        take(watching, "browser-page", 1225, color_scheme="light")
        watching.page.goto(f"{url}/hub")
        watching.page.get_by_text("Drawings", exact=True).click()
        watching.page.locator("#sum-text").filter(has_text="average").wait_for()
        take(watching, "browser-hub", 960, color_scheme="light")


if __name__ == "__main__":
    main()
