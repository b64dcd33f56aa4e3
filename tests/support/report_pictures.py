"""Draws the pictures of the demo's report, from a real one: ``python tests/support/report_pictures.py``."""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from browser import chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
#: Each picture's name, its width, the section that it ends before, and the time of day.
TAKEN = {
    "report": (1120, "cost", "light"),
    "report-dark": (820, "left", "dark"),
    "report-phone": (390, "left", "light"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "ccesa", "demo", "--output", str(path)], check=True)
        for name, (width, end, scheme) in TAKEN.items():
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(path.as_uri())
            height = page.locator(f"#{end}").bounding_box()["y"] - 12
            clip = {"x": 0, "y": 0, "width": width, "height": height}
            picture = Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))
            picture.quantize(128).save(FOLDER / f"{name}.png", optimize=True)
            page.close()


if __name__ == "__main__":
    main()
