"""What a damaged file makes its reader raise: neither zipfile nor numpy promises to stay within less."""

import struct
import tokenize
import zipfile
import zlib

DAMAGED = (
    OSError,  # cut short, or a name that cannot be read
    EOFError,
    ValueError,  # also UnicodeDecodeError
    LookupError,  # a member or a codec that is not there
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,  # a length that is nonsense
    RuntimeError,  # a member that claims to be encrypted; also NotImplementedError and RecursionError
    SyntaxError,  # an array's head is a Python literal
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
