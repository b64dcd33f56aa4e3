"""Debian's Chromium over the operator's page: what it logs, what it asks for, and what can be read in it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import machine

#: A name for this machine that browsers do not take for it: pages under it are no secure context.
ELSEWHERE = "demo.test"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
)
#: How many texts are visible, and those with less contrast to what is behind them than WCAG's AA asks for.
LOW_CONTRAST = """() => {
  const rgb = text => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = node => {
    for (let one = node; one; one = one.parentElement) {
      const colour = rgb(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const low = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement, style = getComputedStyle(holder);
    const box = holder.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || box.width < 2 || box.height < 2) continue;
    if (style.visibility === "hidden" || holder.closest("script,style,noscript,:disabled")) continue;
    const ink = rgb(holder.closest("svg") ? style.fill : style.color), paper = behind(holder);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < 4.5) low.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [seen, low];
}"""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    path = machine.need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


class BrowserThread:
    """One browser, and the one thread that may use it.

    Playwright has an event loop for as long as a browser is open. In a thread of its own it does not disturb
    tests that have loops themselves.
    """

    def __init__(self) -> None:
        machine.need("chromium")
        self._executor = ThreadPoolExecutor(1)
        self._thread = self._executor.submit(threading.get_ident).result()
        self._open = contextlib.ExitStack()
        self.browser: Browser = self.run(self._open.enter_context, chromium())

    def submit(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        """Let the thread do this, and do not wait for it."""
        return self._executor.submit(work, *arguments, **named)

    def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Do this in the thread, and return what it returns."""
        if threading.get_ident() == self._thread:
            return work(*arguments, **named)
        return self.submit(work, *arguments, **named).result()

    def close(self) -> None:
        """End the browser and the thread."""
        self.run(self._open.close)
        self._executor.shutdown()


class Shown:
    """A page that is open, with everything that it logged or asked for."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.logged: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.logged.append(message.text))
        page.on("pageerror", lambda error: self.logged.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        page.wait_for_selector("#live:has-text('live')")
        page.wait_for_selector("#member-rows tr, #nobody:visible", state="attached")

    def text(self, where: str) -> str:
        return self.page.locator(where).inner_text()

    def wait(self, where: str, text: str) -> None:
        self.page.locator(where, has_text=text).first.wait_for(timeout=10_000)

    def use_token(self, token: str) -> None:
        self.page.get_by_label("Operator's token").fill(token)
        self.page.get_by_role("button", name="Use").click()

    def is_clean(self) -> bool:
        """Nothing was logged, and nothing but the hub was asked."""
        away = [one for one in self.requests if not one.startswith((self.url, "data:"))]
        return (self.logged, away) == ([], [])


@contextlib.contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Shown]:
    context = browser.new_context(**options)
    try:
        yield Shown(context.new_page(), url)
    finally:
        context.close()
