"""A QR code in the terminal, so that nobody has to type an address into a phone (ISO/IEC 18004)."""

from collections.abc import Iterable, Iterator

#: By version, from 1 on: bytes of data and of error correction at level L, in one block.
_BLOCKS = ((19, 7), (34, 10), (55, 15), (80, 20), (108, 26))
#: Level L and the mask of _is_masked, with their error correction.
_FORMAT = 0b111011111000100
#: A margin of so many modules.
_QUIET = 2


def code(text: str) -> list[list[bool]]:
    """Return the modules of a text's QR code, row by row; True is dark.

    Raises:
        ValueError: The text has more than 106 bytes.
    """
    data = text.encode()
    fits = [version for version, (room, _) in enumerate(_BLOCKS, 1) if len(data) + 2 <= room]
    if not fits:
        raise ValueError(f"a text of {len(data)} bytes is too long for a QR code in a terminal")
    version = fits[0]
    size = 17 + 4 * version
    dark: dict[tuple[int, int], bool] = {}
    _draw_patterns(dark, size, version)
    _draw_format(dark, size)
    bits = (byte >> (7 - bit) & 1 for byte in _codewords(data, *_BLOCKS[version - 1]) for bit in range(8))
    for place in _free(dark, size):
        dark[place] = bool(next(bits, 0)) ^ _is_masked(place)
    return [[dark[row, column] for column in range(size)] for row in range(size)]


def lines(text: str) -> Iterator[str]:
    """Yield the lines of a text's QR code, two rows of modules in each, dark on light."""
    rows = code(text)
    size = len(rows)
    inside = range(size)

    def is_light(row: int, column: int) -> bool:
        return not (row in inside and column in inside and rows[row][column])

    for row in range(-_QUIET, size + _QUIET, 2):
        halves = ((is_light(row, at), is_light(row + 1, at)) for at in range(-_QUIET, size + _QUIET))
        yield "".join(" ▄▀█"[2 * upper + lower] for upper, lower in halves)


def _draw_patterns(dark: dict[tuple[int, int], bool], size: int, version: int) -> None:
    """Draw finders with their margins, timing lines, the alignment pattern and the dark module."""
    for row, column in ((3, 3), (3, size - 4), (size - 4, 3)):
        for r in range(max(0, row - 4), min(size, row + 5)):
            for c in range(max(0, column - 4), min(size, column + 5)):
                dark[r, c] = max(abs(r - row), abs(c - column)) not in (2, 4)
    for at in range(8, size - 8):
        dark[6, at] = dark[at, 6] = at % 2 == 0
    if version > 1:
        middle = size - 7
        for r in range(middle - 2, middle + 3):
            for c in range(middle - 2, middle + 3):
                dark[r, c] = max(abs(r - middle), abs(c - middle)) != 1
    dark[size - 8, 8] = True


def _draw_format(dark: dict[tuple[int, int], bool], size: int) -> None:
    """Draw which level and which mask this code has, twice."""
    around = [(8, at) for at in (0, 1, 2, 3, 4, 5, 7, 8)] + [(at, 8) for at in (7, 5, 4, 3, 2, 1, 0)]
    apart = [(size - 1 - at, 8) for at in range(7)] + [(8, size - 8 + at) for at in range(8)]
    for places in (around, apart):
        for at, place in enumerate(places):
            dark[place] = bool(_FORMAT >> (14 - at) & 1)


def _is_masked(place: tuple[int, int]) -> bool:
    return sum(place) % 2 == 0


def _free(dark: dict[tuple[int, int], bool], size: int) -> Iterator[tuple[int, int]]:
    """Yield the places for data: in pairs of columns from the right, upwards and downwards in turn."""
    upwards = True
    for right in (*range(size - 1, 6, -2), *range(5, 0, -2)):
        for row in range(size - 1, -1, -1) if upwards else range(size):
            for place in ((row, right), (row, right - 1)):
                if place not in dark:
                    yield place
        upwards = not upwards


def _codewords(data: bytes, room: int, checks: int) -> list[int]:
    """Return bytes mode, length, data and padding, with their error correction."""
    bits = f"0100{len(data):08b}{''.join(f'{byte:08b}' for byte in data)}0000"
    words = [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]
    words += [(0xEC, 0x11)[at % 2] for at in range(room - len(words))]
    return words + _remainder(words, checks)


def _remainder(words: Iterable[int], checks: int) -> list[int]:
    """Return the Reed-Solomon code of so many bytes, over the field of 256 with the polynomial 0x11D."""
    divisor = [1]
    root = 1
    for _ in range(checks):
        longer = [*divisor, 0]
        for at, value in enumerate(divisor):
            longer[at + 1] ^= _times(value, root)
        divisor, root = longer, _times(root, 2)
    rest = [0] * checks
    for word in words:
        factor = word ^ rest[0]
        rest = [value ^ _times(factor, by) for value, by in zip([*rest[1:], 0], divisor[1:], strict=True)]
    return rest


def _times(a: int, b: int) -> int:
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product
