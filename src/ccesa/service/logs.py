"""Structured logs: events by name with fields, as JSON lines or as text, and never contents.

No event has a field for contents. As a second defence, ``plain`` filters all that this and other packages log: it
replaces bytes with their number, cuts and escapes text, and removes anything that looks like a secret or a vector.
"""

import json
import logging
import math
import re
import sys
import time
import traceback
from collections.abc import Iterable
from typing import Any, TextIO

from ccesa.errors import ConfigError, shown

LOGGER = logging.getLogger("ccesa.service")
#: Attributes of every record, besides an event's fields; uvicorn adds its message in colours.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "fields", "color_message"}
_LONGEST, _MOST = 200, 16  # the maximum length of a text, and of a list
#: ``plain`` removes these from texts: bytes as Python shows them (first, while they have their quotes), passwords
#: in addresses, credentials, rows of long numbers, and all but the beginning of anything as long as a key in
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
    """Log an event such as "round-over", with numbers, short texts and lists of them: never contents."""
    LOGGER.log(level, name, extra={"fields": fields})


class Seldom:
    """Logs a warning at most once a second, with the number of attempts: repeated failures must not fill the disk."""

    def __init__(self) -> None:
        self._logged, self._attempts = -math.inf, 0

    def event(self, name: str, **fields: object) -> None:
        self._attempts += 1
        if time.monotonic() - self._logged >= 1:
            event(name, logging.WARNING, **fields, attempts=self._attempts)
            self._logged, self._attempts = time.monotonic(), 0


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
    """Return a text without anything that looks like a secret, cut where the check ends."""
    checked = text[: 3 * _LONGEST]
    for pattern, instead in _LEFT_OUT:
        checked = pattern.sub(instead, checked)
    if len(text) > 3 * _LONGEST:
        checked = _BROKEN_OFF.sub("", checked) + "..."
    return shown(checked, _LONGEST)


def _list(values: Iterable[object]) -> list[Any] | str:
    """Return a list of ids or names. Numbers that cannot be ids count as a vector and are left out."""
    every = list(values)
    if any(isinstance(one, float) or (isinstance(one, int) and abs(one) >= 1 << 24) for one in every):
        return f"({len(every)} numbers)"
    more = [f"and {len(every) - _MOST} more"] if len(every) > _MOST else []
    return [plain(one) for one in every[:_MOST]] + more


def line(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields to write for a record."""
    extra = {name: value for name, value in vars(record).items() if name not in _USUAL}
    written: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": _text(record.getMessage()),
    }
    for name, value in (extra | getattr(record, "fields", {})).items():
        written.setdefault(name, plain(value))
    if record.exc_info and record.exc_info[1] is not None:
        places = traceback.extract_tb(record.exc_info[2])[-_MOST:]  # source lines and locals could hold contents
        frames = [f"{one.filename}:{one.lineno} {one.name}" for one in places]
        written |= {"error": plain(record.exc_info[1]), "frames": frames}
    return written


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


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def set_up(log_format: str, stream: TextIO | None = None) -> None:
    """Write all logs of this process in one of ``FORMATS``; other packages log only warnings and errors."""
    if log_format not in FORMATS:
        raise ConfigError(f"the log format must be one of {', '.join(FORMATS)}, got {shown(log_format)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(FORMATS[log_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
