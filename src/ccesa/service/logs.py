"""Structured logs: events by name with fields, as JSON lines or as text, and never contents.

No event has a field for contents. As a second defence, everything that is logged passes ``plain``, also what
other packages log: bytes show as their number, text is cut and escaped, and anything that looks like a key, a
token or a vector is removed.
"""

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TextIO

from ccesa.errors import ConfigError, shown

LOGGER = logging.getLogger("ccesa.service")
FORMATS = ("text", "json")
#: Attributes of every record, besides an event's fields; uvicorn adds its message in colours.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "fields", "color_message"}
#: The maximum length of a text, and of a list.
_LONGEST, _MOST = 200, 16
#: Removed from texts: bytes as Python shows them (first, while they have their quotes), passwords in
#: addresses, credentials, rows of long numbers, and all but the beginning of anything as long as a key in
#: base64 or hexadecimal.
_LEFT_OUT = (
    (re.compile(r"""\bb(?:'(?:[^'\\]|\\.)*\\?(?:'|\Z)|"(?:[^"\\]|\\.)*\\?(?:"|\Z))""", re.DOTALL), "(bytes)"),
    (re.compile(r"//[^/@\s]+@"), "//...@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+\S+"), r"\1 ..."),
    (re.compile(r"(?:[-+]?\d[\d.e+-]{4,}[\s,\]\[]+){3,}(?:[-+]?\d[\d.e+-]*)?"), "(numbers) "),
    (re.compile(r"(?<![\w+/-])(?=[a-z_+/-]*[A-Z0-9])([\w+/-]{8})[\w+/-]{16,}={0,2}", re.ASCII), r"\1..."),
)
#: The last word of a text that is cut: it may be the beginning of a key.
_BROKEN_OFF = re.compile(r"[^\s.]*\Z")


def event(name: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Log an event such as "round-over".

    Its fields are numbers, short texts, and lists of them. Never contents: no vector, share, key or token.
    """
    LOGGER.log(level, name, extra={"fields": fields})


def plain(value: object) -> Any:
    """Return a value as it may be logged: short, printable, without anything that looks like a secret."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return round(value, 6) if abs(value) < 1e15 else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, BaseException):
        return _text(f"{type(value).__name__}: {value}")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({memoryview(value).nbytes} bytes)"
    if isinstance(value, list | tuple | set | frozenset):
        return _list(value)
    return f"({type(value).__name__})"


def _text(text: str) -> str:
    """Return text without anything that looks like a secret; only the checked part of it."""
    checked = text[: 3 * _LONGEST]
    for pattern, instead in _LEFT_OUT:
        checked = pattern.sub(instead, checked)
    if len(text) > 3 * _LONGEST:
        checked = _BROKEN_OFF.sub("", checked) + "..."
    return shown(checked, _LONGEST)


def _list(values: Iterable[object]) -> list[Any] | str:
    """Return a list of ids or names. Numbers that cannot be ids are taken for a vector and left out."""
    every = list(values)
    if any(isinstance(one, float) or (isinstance(one, int) and abs(one) >= 1 << 24) for one in every):
        return f"({len(every)} numbers)"
    more = [f"and {len(every) - _MOST} more"] if len(every) > _MOST else []
    return [plain(one) for one in every[:_MOST]] + more


def line(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that are written of a record."""
    written: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": _text(record.getMessage()),
    }
    for name, value in (_extra(record) | getattr(record, "fields", {})).items():
        written.setdefault(name, plain(value))
    if record.exc_info and record.exc_info[1] is not None:
        written |= {"error": plain(record.exc_info[1]), "frames": _frames(record.exc_info[2])}
    return written


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _frames(trace: TracebackType | None) -> list[str]:
    """Return the places of a traceback, innermost last. Source lines and locals could hold contents."""
    return [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_tb(trace)][-_MOST:]


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(line(record))


class TextLines(logging.Formatter):
    """One line of text: time, level, event, and ``name=value`` for each field."""

    def format(self, record: logging.LogRecord) -> str:
        written = line(record)
        head = " ".join((written.pop("time"), f"{written.pop('level'):7}", written.pop("event")))
        written.pop("logger")
        return " ".join([head, *(f"{name}={json.dumps(value)}" for name, value in written.items())])


_FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def set_up(log_format: str = "text", stream: TextIO | None = None, level: int = logging.INFO) -> logging.Handler:
    """Write all logs of this process in one format, including those of other packages.

    Args:
        log_format: "text" or "json".
        stream: Standard error by default.
        level: The lowest level of our own logs; other packages log warnings and errors.

    Returns:
        The handler, now the root logger's only one.

    Raises:
        ConfigError: Another format.
    """
    if log_format not in _FORMATTERS:
        raise ConfigError(f"the log format must be one of {', '.join(FORMATS)}, got {shown(log_format)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[log_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level)
    return handler
