"""Decoding is strict: bounded before it is parsed, typed, and only in the form that encoding gives.

A last field that is a ``memoryview`` may be far larger than all others and is never copied: decoded, it is a view of
the bytes that came; for encoding, it can be made in the message itself.
"""

import io
from functools import lru_cache
from typing import TypeVar

import msgspec

from ccesa.errors import MalformedMessage, shown

T = TypeVar("T", bound=msgspec.Struct)
#: Bytes, or a flat view of some that were not copied.
Data = bytes | memoryview

_ENCODER = msgspec.msgpack.Encoder()
#: By the code that they begin with: how many bytes the headers of byte strings have for the length.
_HEADERS = {0xC4: 1, 0xC5: 2, 0xC6: 4}


class Draft:
    """An encoding whose last field is made in place; its front is written last."""

    def __init__(self, front: int, nbytes: int) -> None:
        self._stream, self.nbytes = io.BytesIO(), nbytes
        self._stream.seek(front + nbytes - 1)
        self._stream.write(b"\0")
        self._whole = self._stream.getbuffer()
        #: The place of the last field; zeros until it is made.
        self.content = self._whole[front:]

    def finish(self, front: bytes) -> bytes:
        """Return the whole encoding, once; a copy only if somebody still holds on to the content."""
        self._whole[: len(front)] = front
        del self._whole, self.content
        return self._stream.getvalue()


def encode(value: msgspec.Struct) -> bytes:
    """Return the only encoding; a draft in the last field becomes the message itself."""
    last = getattr(value, value.__struct_fields__[-1])
    return last.finish(front(value, last.nbytes)) if isinstance(last, Draft) else _ENCODER.encode(value)


def front(value: msgspec.Struct, nbytes: int) -> bytes:
    """Return the encoding up to the content of the last field, a byte string of this size."""
    return encode_without_last(value)[:-2] + _header(nbytes)


def encode_without_last(value: msgspec.Struct) -> bytes:
    """Return the encoding of the same fields with an empty last one."""
    return _ENCODER.encode(msgspec.structs.replace(value, **{value.__struct_fields__[-1]: b""}))


@lru_cache(maxsize=64)  # a server calls it for every reply
def _header(nbytes: int) -> bytes:
    code, width = next((code, width) for code, width in _HEADERS.items() if nbytes < 256**width)
    return bytes([code]) + nbytes.to_bytes(width, "big")


def decode(decoder: msgspec.msgpack.Decoder[T], data: Data, most: int, what: str) -> T:
    """Decode at most ``most`` bytes, in their only encoding; raises MalformedMessage."""
    if len(data) > most:
        raise MalformedMessage(f"expected at most {most} bytes, got {len(data)}")
    try:
        value = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if str(error).endswith("`$.version`"):
            raise MalformedMessage(f"a {what} of another wire format than this version of ccesa reads") from None
        # Its text quotes the sender's, megabytes of it, and a traceback would show it as the cause.
        raise MalformedMessage(f"not a {what}: {shown(str(error), 240)}") from None
    if not _is_canonical(value, data):
        raise MalformedMessage(f"a {what} in a form that encode() does not give")
    return value


def _is_canonical(value: msgspec.Struct, data: Data) -> bool:
    """Compare with the only encoding. Of a view only its place and its header matter."""
    # Views compare slowly, element by element; bytes of bytes are the bytes themselves.
    last = getattr(value, value.__struct_fields__[-1])
    if not isinstance(last, memoryview):
        return bytes(data) == _ENCODER.encode(value)
    expected = front(value, last.nbytes)
    return len(data) == len(expected) + last.nbytes and bytes(data[: len(expected)]) == expected
