"""Lines in Flower's log. All begin with the same words."""

from functools import cache, partial
from logging import ERROR, INFO, WARNING

from flwr.common import log

_LINE = "secure aggregation: %s"

info, warn = partial(log, INFO, _LINE), partial(log, WARNING, _LINE)
#: Logs a line only once in this process.
info_once = cache(info)


def fail(line: str, error: BaseException) -> None:
    """Log an error in the user's own code, with its traceback."""
    log(ERROR, _LINE, line, exc_info=error)
