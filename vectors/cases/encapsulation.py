"""ML-KEM-768 (FIPS 203), encapsulation with a message that is given: the library draws its own.

Only for vectors, which have to come out the same each time. It is slow and takes no care to hide anything.
"""

import hashlib

Q, N, K = 3329, 256, 3
Polynomial = list[int]
_ZETAS = [pow(17, int(f"{place:07b}"[::-1], 2), Q) for place in range(128)]


def encapsulate(public: bytes, message: bytes) -> tuple[bytes, bytes]:
    """Return secret and ciphertext (algorithm 17)."""
    both = hashlib.sha3_512(message + hashlib.sha3_256(public).digest()).digest()
    return both[:32], _encrypt(public, message, both[32:])


def _encrypt(public: bytes, message: bytes, randomness: bytes) -> bytes:
    """Return the ciphertext (algorithm 14)."""
    t = [_unpacked(public[384 * row : 384 * row + 384], 12) for row in range(K)]
    noise = [_noise(randomness, place) for place in range(2 * K + 1)]
    y, rho = [_ntt(one) for one in noise[:K]], public[384 * K :]
    u = []
    for row in range(K):
        products = [_product(_uniform(rho, row, column), y[column]) for column in range(K)]
        u.append(_sum(_inverse(_sum(*products)), noise[K + row]))
    told = [bit * ((Q + 1) // 2) for bit in _unpacked(message, 1)]
    v = _sum(_inverse(_sum(*(_product(t[row], y[row]) for row in range(K)))), noise[2 * K], told)
    return b"".join(_compressed(one, 10) for one in u) + _compressed(v, 4)


def _uniform(rho: bytes, row: int, column: int) -> Polynomial:
    """Return entry (column, row) of the matrix, so that rows are those of the transpose (algorithm 7)."""
    stream, found = hashlib.shake_128(rho + bytes([row, column])).digest(3 * 672), []
    for place in range(0, len(stream), 3):
        one, two, three = stream[place : place + 3]
        found += [value for value in (one + 256 * (two % 16), two // 16 + 16 * three) if value < Q]
    return found[:N]


def _noise(randomness: bytes, place: int) -> Polynomial:
    """Return small numbers (algorithm 8)."""
    bits = _unpacked(hashlib.shake_256(randomness + bytes([place])).digest(128), 1)
    return [(bits[4 * k] + bits[4 * k + 1] - bits[4 * k + 2] - bits[4 * k + 3]) % Q for k in range(N)]


def _ntt(given: Polynomial) -> Polynomial:
    """Transform (algorithm 9)."""
    f, place, length = list(given), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            zeta, place = _ZETAS[place], place + 1
            for j in range(start, start + length):
                other = zeta * f[j + length] % Q
                f[j + length], f[j] = (f[j] - other) % Q, (f[j] + other) % Q
        length //= 2
    return f


def _inverse(given: Polynomial) -> Polynomial:
    """Transform back (algorithm 10)."""
    f, place, length = list(given), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            zeta, place = _ZETAS[place], place - 1
            for j in range(start, start + length):
                one, other = f[j], f[j + length]
                f[j], f[j + length] = (one + other) % Q, zeta * (other - one) % Q
        length *= 2
    return [value * 3303 % Q for value in f]


def _product(f: Polynomial, g: Polynomial) -> Polynomial:
    """Multiply transformed polynomials (algorithms 11 and 12)."""
    found = []
    for k in range(128):
        gamma = pow(17, 2 * int(f"{k:07b}"[::-1], 2) + 1, Q)
        (a, b), (c, d) = f[2 * k : 2 * k + 2], g[2 * k : 2 * k + 2]
        found += [(a * c + b * d * gamma) % Q, (a * d + b * c) % Q]
    return found


def _sum(*given: Polynomial) -> Polynomial:
    return [sum(column) % Q for column in zip(*given, strict=True)]


def _unpacked(data: bytes, bits: int) -> Polynomial:
    whole = int.from_bytes(data, "little")
    return [whole >> place & ((1 << bits) - 1) for place in range(0, 8 * len(data), bits)]


def _compressed(f: Polynomial, bits: int) -> bytes:
    whole = 0
    for place, value in enumerate(f):
        whole |= ((value << bits) * 2 + Q) // (2 * Q) % (1 << bits) << bits * place
    return whole.to_bytes(N * bits // 8, "little")
