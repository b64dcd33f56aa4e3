"""Where a command writes its report."""

import os
from pathlib import Path

from ccesa.errors import ConfigError


def check_output(path: Path, option: str = "--output") -> None:
    """Refuse a place that cannot be written to before the work is done, not after it."""
    if not path.parent.is_dir():
        raise ConfigError(f"{option}: there is no folder {path.parent}")
    if path.is_dir():
        raise ConfigError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{option}: no permission to write {path}")
