"""Files that decide about trust."""

from pathlib import Path


def read_trusted(path: Path | str, most: int) -> str:
    return Path(path).read_text(encoding="utf-8")
