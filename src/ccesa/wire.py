"""Decoding is strict: bounded before it is parsed, typed, and only in the form that encoding gives."""

from typing import TypeVar

import msgspec

from ccesa.errors import MalformedMessage, shown

T = TypeVar("T")
#: Bytes, or a flat view of some that were not copied.
Data = bytes | memoryview

_ENCODER = msgspec.msgpack.Encoder()


def encode(value: msgspec.Struct) -> bytes:
    return _ENCODER.encode(value)


def decode(decoder: msgspec.msgpack.Decoder[T], data: Data, most: int, what: str) -> T:
    """Decode at most so many bytes, in their only encoding; raises MalformedMessage."""
    if len(data) > most:
        raise MalformedMessage(f"expected at most {most} bytes, got {len(data)}")
    data = bytes(data)  # what are bytes stay as they are; views compare slowly, element by element
    try:
        value = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if str(error).endswith("`$.version`"):
            raise MalformedMessage(
                f"a {what} of another wire format than this version of ccesa reads"
            ) from None
        # Its text quotes the sender's, megabytes of it, and a traceback would show it as the cause.
        raise MalformedMessage(f"not a {what}: {shown(str(error), 240)}") from None
    if _ENCODER.encode(value) != data:
        raise MalformedMessage(f"a {what} in a form that encode() does not give")
    return value
