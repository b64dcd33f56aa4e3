"""Draws the pictures of the operator's page, from a real federation: ``python tests/service/pictures.py``.

``examples/training.py`` runs with slow sites; the pictures are taken while vectors come in.
"""

import io
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from PIL import Image

from browser import chromium, opened

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
#: File, width, height, and colours.
PICTURES = (
    ("service-page", 1280, 1290, "light"),
    ("service-dark", 1280, 1290, "dark"),
    ("service-phone", 360, 1100, "light"),
)
#: The pictures are taken when so many sums are there.
SUMS = 7


def wait_for_vectors(page: str) -> None:
    """Wait until vectors are coming in for the next sum."""
    while True:
        with urllib.request.urlopen(f"{page}/status") as answer:  # noqa: S310 - http, on the loopback
            status = json.load(answer)
        steps = {one["step"]: one for one in status["steps"]}
        if status["answered"] >= SUMS and 8 <= steps.get("mask", {"answered": 0})["answered"] <= 14:
            return
        time.sleep(0.05)


def main() -> None:
    command = [sys.executable, str(ROOT / "examples" / "training.py"), "--slow", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hub, chromium() as browser:
        page = hub.stdout.readline().split()[1]
        for name, width, height, scheme in PICTURES:
            screen = {"width": width, "height": height}
            with opened(browser, page, viewport=screen, color_scheme=scheme) as shown:
                wait_for_vectors(page)
                shown.page.wait_for_timeout(300)
                picture = Image.open(io.BytesIO(shown.page.screenshot()))
                picture.quantize(128).save(FOLDER / f"{name}.png", optimize=True)
        hub.terminate()


if __name__ == "__main__":
    main()
