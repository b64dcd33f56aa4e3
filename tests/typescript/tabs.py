"""The demo for browsers as people run it: the server in a process, people in tabs of a real Chromium."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, BrowserContext

from browser import LOW_CONTRAST
from runners import built

DEMO = Path(__file__).parents[2] / "examples" / "browser" / "demo.py"
#: A hub tells a client that all is over by this status, which Chromium logs as if it were a mistake.
OVER = "the server responded with a status of 410 (Gone)"
#: Milliseconds in which a round comes to its end on a busy machine.
ROUND = 60_000


@contextmanager
def demo(*options: str) -> Iterator[str]:
    """Run the demo; yield its address."""
    built("dist/service/participant.js")
    command = [sys.executable, str(DEMO), "--port", "0", *options]
    with TemporaryDirectory() as folder:
        own = os.environ | {"TMPDIR": folder}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as process:
            try:
                said = (line for line in process.stdout if " Open " in line)
                yield re.search(r"http://\S+[0-9]", next(said)).group()
            finally:
                process.terminate()
                process.wait(20)
        assert os.listdir(folder) == []  # every hub was ended, and its folder removed


class Tab:
    """One person."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page, self.url = context.new_page(), url
        self.logged: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)
        self.wait_for("You are", "#you")

    @property
    def name(self) -> str:
        return self.page.inner_text("#you").removeprefix("You are ")

    def give(self, number: int) -> None:
        """Enter a number and press the button."""
        self.page.get_by_role("textbox", name="Your number").fill(str(number))
        self.page.get_by_role("button", name="Take part").or_(
            self.page.get_by_role("button", name="Play again")
        ).click()

    def draw(self) -> list[int]:
        """Draw something with the mouse and press the button; return the dots."""
        self.page.get_by_text("A drawing", exact=True).click()
        box = self.page.locator("#pad").bounding_box()
        mouse = self.page.mouse
        mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
        mouse.down()
        for x, y in ((0.7, 0.2), (0.45, 0.8)):
            mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        mouse.up()
        dots = self.dots("#pad")
        self.page.get_by_role("button", name="Take part").click()
        return dots

    def dots(self, canvas: str) -> list[int]:
        """Return the grey values of a picture."""
        script = """canvas => {
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return [...data].filter((_, place) => place % 4 === 0);
        }"""
        return self.page.locator(canvas).evaluate(script)

    def wait_for(self, text: str, where: str = "#says") -> None:
        """Wait until the page says this."""
        self.page.locator(where, has_text=text).first.wait_for(timeout=ROUND)

    def result(self) -> str:
        """Return what the page says at the end of the round."""
        self.page.locator("#result").wait_for(timeout=ROUND)
        return self.page.locator("#result").inner_text()

    def low_contrast(self) -> Any:
        """Return how many texts there are, and those that are hard to read."""
        return self.page.evaluate(LOW_CONTRAST)

    def close(self) -> None:
        self.page.close()

    def is_clean(self) -> bool:
        """Nothing was logged, and nothing but the demo was asked."""
        logged = [text for text in self.logged if OVER not in text]
        return (logged, [one for one in self.asked if not one.startswith(self.url)]) == ([], [])


@contextmanager
def tabs(browser: Browser, url: str, count: int, **options: Any) -> Iterator[list[Tab]]:
    """Open so many tabs, each in a browser profile of its own."""
    contexts = [browser.new_context(**options) for _ in range(count)]
    try:
        yield [Tab(context, url) for context in contexts]
    finally:
        for context in contexts:
            context.close()
