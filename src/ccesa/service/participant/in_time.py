"""With noise, how long a site works on a vector can tell of its data. A fixed time tells nothing."""

import math
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from ccesa.errors import ConfigError
from ccesa.words import Vector

#: Makes a vector, or raises.
Make = Callable[[], Vector]


def at_once(make: Make) -> Vector:
    """Make a vector, however long it takes."""
    return make()


class InTime:
    """Makes vectors in a thread, each in the same time.

    A function that is still at work when its time is over cannot be stopped. Until it ends, none is called.

    Args:
        seconds: From the call of the function to the moment at which its vector, or another one, may leave.

    Raises:
        ConfigError: The time is not a positive number.
    """

    def __init__(self, seconds: float) -> None:
        if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
            raise ConfigError(f"answer_after must be a positive number of seconds, not {seconds!r}")
        self._seconds, self._thread = seconds, Thread()

    def __call__(self, make: Make) -> Vector:
        """Return the vector when the time is over, and not before.

        Raises:
            TimeoutError: It is not ready.
            BaseException: What the function has raised.
        """
        end, found = time.monotonic() + self._seconds, dict[str, Any]()
        if not self._thread.is_alive():
            self._thread = Thread(target=_into, args=[found, make], daemon=True)
            self._thread.start()
        self._thread.join(self._seconds)
        time.sleep(max(0.0, end - time.monotonic()))
        if "error" in found:
            raise found["error"]
        if "vector" not in found:
            raise TimeoutError(f"there was no vector after {self._seconds:g} seconds")
        vector: Vector = found["vector"]
        return vector


def _into(found: dict[str, Any], make: Make) -> None:
    try:
        found["vector"] = make()
    except BaseException as error:  # for the thread that waits
        found["error"] = error
