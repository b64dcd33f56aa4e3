"""Draws the pictures of the operator's page: ``python tests/service/pictures.py docs/pictures``."""

import io
import sys
from pathlib import Path

from PIL import Image

from browser import chromium, opened
from shown_desk import ShownDesk, served

#: File, members, width, height, and colours.
PICTURES = (
    ("service-page", 20, 1280, 1290, "light"),
    ("service-dark", 1000, 1280, 1290, "dark"),
    ("service-phone", 5, 360, 1100, "light"),
)


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with chromium() as browser:
        for name, members, width, height, scheme in PICTURES:
            desk = ShownDesk(members)
            desk.play()
            screen = {"width": width, "height": height}
            with (
                served(desk) as serving,
                opened(browser, serving.url, viewport=screen, color_scheme=scheme) as shown,
            ):
                shown.page.wait_for_timeout(1000)
                picture = Image.open(io.BytesIO(shown.page.screenshot()))
                picture.quantize(128).save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
