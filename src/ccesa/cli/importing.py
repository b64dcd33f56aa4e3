"""Functions and classes of the user's own, which commands are told by name."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ccesa.errors import ConfigError, quoted, shown


def imported(name: str) -> Callable[..., Any]:
    """Return a function by module and name; modules of the current folder are found, too."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigError(f"--run takes MODULE:FUNCTION, as in my_module:contribute, not {quoted(name)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise ConfigError(f"--run: cannot import {quoted(module)}: {shown(str(error), 200)}") from error
    except SyntaxError as error:
        raise ConfigError(f"--run: {error.filename}, line {error.lineno}: {error.msg}") from error
    except SystemExit as error:
        raise ConfigError(f"--run: {quoted(module)} ends the process when it is imported") from error
    if not callable(found):
        raise ConfigError(f"--run: there is no function {quoted(function)} in {quoted(module)}")
    return found
