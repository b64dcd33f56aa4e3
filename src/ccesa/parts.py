"""Configurations and charters have typed parts with checked fields."""

import operator
import re
from typing import Final

import msgspec

from ccesa.errors import ConfigError, quoted

MAX_CLIENTS: Final = 2**32 - 1

#: Ranges of code points that no line holds (docs/formats.md, 1): ``str.isprintable`` differs between Pythons.
_RANGES = (
    "0-1F 7F-A0 AD-AD 61C-61C 1680-1680 180E-180E 2000-200F 2028-202F 205F-206F 3000-3000 D800-F8FF FDD0-FDEF "
    "FEFF-FEFF FFF0-FFFF 1BCA0-1BCA3 1D173-1D17A E0000-10FFFF"
)
UNPRINTABLE = [(int(first, 16), int(last, 16)) for first, last in (one.split("-") for one in _RANGES.split())]
UNPRINTABLE_PATTERN = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in UNPRINTABLE) + "]")


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of the typed parts of a configuration or a charter."""


def whole_number(name: str, value: object) -> int:
    """Return the value as an int, also if it is one of numpy's."""
    if type(value) is int:  # nearly always
        return value
    if not hasattr(value, "__index__"):
        raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
    return operator.index(value)


def check_type(name: str, value: object, kind: type, hint: str = "") -> None:
    """Raise ConfigError for a value of another type; ``hint`` says how to get one."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name}: expected {kind.__name__}, got {type(value).__name__}{hint}")


def check_clients(clients: int) -> None:
    if clients < 3:
        raise ConfigError(f"a round needs at least 3 clients, not {clients}: with 2 the sum reveals both vectors")
    if clients > MAX_CLIENTS:
        raise ConfigError(f"a round has at most {MAX_CLIENTS} clients, not {clients}")


def check_integer(name: str, value: object) -> None:
    """Refuse a value that is not an int, or is too large for the wire format."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
    if value.bit_length() > 63:
        raise ConfigError(f"{name} must lie below 2^63, not {quoted(value)}")


def check_range(name: str, value: object, least: int, most: int, of: str = "") -> None:
    """Refuse what is not an int from ``least`` to ``most``; ``of`` says whose number it is."""
    check_integer(name, value)
    if not least <= value <= most:  # type: ignore[operator]  # an int by now
        raise ConfigError(f"{name}{of} must lie in {least}..{most}, not {value}")


def settle_probability(part: Part, name: str) -> None:
    """Refuse a value that is not a probability above zero; store a float, so that 1 and 1.0 encode alike."""
    p = getattr(part, name)
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p <= 1:
        raise ConfigError(f"{name} must lie in (0, 1], not {quoted(p)}")
    msgspec.structs.force_setattr(part, name, float(p))


def is_printable(text: str) -> bool:
    """Tell whether no character of the text is a control, invisible, or a space other than U+0020."""
    return UNPRINTABLE_PATTERN.search(text) is None
