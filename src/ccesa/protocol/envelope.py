"""An envelope carries the messages of one exchange of a series for one client: one per round in flight."""

import struct
from collections.abc import Iterable

from ccesa.errors import MalformedMessage
from ccesa.wire import Data

_LENGTH = struct.Struct("<I")
MAX_MESSAGE_BYTES = 2**32 - 1
#: The most rounds in flight at a time.
MOST = 3


def pack(messages: Iterable[Data]) -> bytes:
    """Join messages, each behind its length as four little-endian bytes. No message ends the series."""
    return b"".join(part for message in messages for part in (_LENGTH.pack(len(message)), message))


def unpack(data: Data) -> list[memoryview]:
    """Return views of the messages, without a copy; raises MalformedMessage."""
    view = memoryview(data)
    messages: list[memoryview] = []
    while view:
        if len(messages) == MOST:
            raise MalformedMessage(f"more than {MOST} messages in an envelope")
        if len(view) < _LENGTH.size:
            raise MalformedMessage(f"{len(view)} bytes after the last message of an envelope")
        (length,) = _LENGTH.unpack(view[: _LENGTH.size])
        view = view[_LENGTH.size :]
        if not 0 < length <= len(view):
            raise MalformedMessage(f"a message of {length} bytes in an envelope that has {len(view)} left")
        messages.append(view[:length])
        view = view[length:]
    return messages
