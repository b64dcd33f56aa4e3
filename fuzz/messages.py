"""Messages of every type: malformed, or the one encoding of what was read."""

from ccesa.errors import MalformedMessage
from ccesa.protocol import messages as m


def one(data: bytes) -> None:
    try:
        message = m.decode(data, 1 << 20)
    except MalformedMessage:
        return
    if message.encode() != data:
        raise AssertionError("a message with two encodings")
    if m.decode(message.encode(), len(data)) != message:
        raise AssertionError("a message that does not come back")
    for seen in (memoryview(data), memoryview(bytearray(data))):
        if m.decode(seen, len(data)) != message:
            raise AssertionError("a view that is not read like its bytes")
