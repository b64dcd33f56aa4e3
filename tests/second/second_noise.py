"""The second implementation, noise: tables by decimals, draws by counting, one number at a time.

Each refusal is a statement of its own, as in the rest of it.
"""

import hashlib
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

from second import LABELS, bytes_of, hashed, keystream, packed, words_of
from second_config import whole
from second_quantizer import leaves, number, shape_of
from second_refusals import refuse

ROTATION, MECHANISM = LABELS["rotation"], LABELS["mechanism"]
BITS = 128
UNITS = 256
R = 1.75
ROOM = {
    "honest": ("Y1.6", 2**32),
    "dimension": ("Y1.7", 2**36),
    "variance": ("Y1.8", 2**20),
    "bound": ("Y1.9", 2**31),
    "grid_bits": ("Y1.10", 12),
}
DIGITS = Context(prec=120)


# Tables


@cache
def row_of(variance, grid_bits, phase):
    """The first z of a phase and its thresholds, floor(2^128 F(z))."""
    with localcontext(DIGITS):
        two_s2 = 2 * Decimal(variance) / UNITS
        centre = Decimal(phase) / 2**grid_bits
        reach = 16 * math.isqrt(variance // UNITS + 1) + 40
        weights = {z: (-((z - centre) ** 2) / two_s2).exp() for z in range(-reach, reach + 1)}
        total, below, row = sum(weights.values()), Decimal(0), []
        for z, weight in weights.items():
            below += weight
            if 2 * phase == 2**grid_bits and z == 0:
                threshold = 2 ** (BITS - 1)  # F(0) = 1/2 by symmetry
            else:
                threshold = min(int(below / total * 2**BITS), 2**BITS - 1)
            if threshold:
                row.append((z, threshold))
            if threshold == 2**BITS - 1:
                break
    return row[0][0], [threshold for _, threshold in row]


def check_table(variance, grid_bits):
    if not 0 <= whole(grid_bits, "Y3.1") <= 16:
        refuse("Y3.1", "ConfigError")
    if whole(variance, "Y3.2") < 1:
        refuse("Y3.2", "ConfigError")
    if variance * 4**grid_bits > UNITS * 2**35:
        refuse("Y3.3", "ConfigError")


def table_of(variance, grid_bits):
    check_table(variance, grid_bits)
    return [row_of(variance, grid_bits, phase) for phase in range(2**grid_bits)]


def digest_of(table):
    return hashlib.sha256(b"".join(one.to_bytes(16, "little") for _, row in table for one in row)).digest()


def draws_of(variance, grid_bits, fine, key):
    if any(abs(one) > 2**62 for one in fine):
        refuse("Y2.3", "VectorError")
    stream, drawn = keystream("aes128-ctr", key, 0, 16 * len(fine)), []
    for place, one in enumerate(fine):
        high, low = words_of(stream[16 * place : 16 * place + 16], 64)
        coarse, phase = divmod(one, 2**grid_bits)
        first, row = row_of(variance, grid_bits, phase)
        drawn.append(coarse + first + sum(threshold <= high * 2**64 + low for threshold in row))
    return drawn


# Rotations


def passes(count, context):
    """Where each pass starts, and the signs of its coordinates."""
    many = 2 ** (count.bit_length() - 1)
    starts = sorted({0, count - many})
    stream = keystream("aes128-ctr", hashed(ROTATION, context)[:16], 0, math.ceil(many * len(starts) / 8))
    signs = [1 - 2 * (stream[place // 8] >> place % 8 & 1) for place in range(many * len(starts))]
    return [(start, signs[k * many : (k + 1) * many]) for k, start in enumerate(starts)]


def walsh(values):
    """The orthonormal transform, by halves."""
    if len(values) == 1:
        return values
    half = len(values) // 2
    left, right = walsh(values[:half]), walsh(values[half:])
    pairs = list(zip(left, right, strict=True))
    return [(a + b) / math.sqrt(2) for a, b in pairs] + [(a - b) / math.sqrt(2) for a, b in pairs]


def rotated(values, context):
    found = list(values)
    for start, signs in passes(len(found), context):
        end = start + len(signs)
        found[start:end] = walsh([v * sign for v, sign in zip(found[start:end], signs, strict=True)])
    return found


def unrotated(values, context):
    found = list(values)
    for start, signs in reversed(passes(len(found), context)):
        end = start + len(signs)
        found[start:end] = [v * sign for v, sign in zip(walsh(found[start:end]), signs, strict=True)]
    return found


# Mechanisms


def phi(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def log_error(s):
    """Of one sum over the integers, ln of the factor by which it is off at most."""
    far = 2 * sum(math.exp(-2 * (math.pi * s * k) ** 2) for k in range(1, 9))
    return -math.log1p(-far) if far < 1 else math.inf


def theta(variance):
    """How far a draw from the table may be from the distribution, in total variation."""
    return (2 * (math.isqrt(7 * 192 * variance // 1280) + 1) + 3) * 2.0**-129


class Mechanism:
    """All public numbers, from an entry of the file."""

    def __init__(self, fields):
        self.fields = {name: number(value) for name, value in fields.items()}
        self.check_demand(**{name: self.fields[name] for name in ("epsilon", "delta", "rounds", "norm", "against")})
        self.check_numbers()
        self.s = math.sqrt(self.fields["variance"] / UNITS)
        if not 2.2 <= self.s <= 32:
            refuse("Y1.8", "ConfigError")
        if self.slack() > 1e-6:
            refuse("Y1.12", "ConfigError")
        if not self.epsilon() <= self.fields["epsilon"]:
            refuse("Y1.13", "ConfigError")

    def check_demand(self, epsilon, delta, rounds, norm, against):
        if not epsilon <= 50:  # no noise keeps 0 or less
            refuse("Y1.1", "ConfigError")
        if not 1e-12 <= delta < 1:
            refuse("Y1.2", "ConfigError")
        if not 1 <= whole(rounds, "Y1.3") <= 10**9:
            refuse("Y1.3", "ConfigError")
        if not 1e-100 < norm < 1e100:
            refuse("Y1.4", "ConfigError")
        if against not in ("follows", "lies"):
            refuse("Y1.5", "ConfigError")

    def check_numbers(self):
        for name, (check, most) in ROOM.items():
            if not 1 <= whole(self.fields[name], check) <= most:
                refuse(check, "ConfigError")
        if not 2 <= whole(self.fields["field_bits"], "Y1.11") <= 64:
            refuse("Y1.11", "ConfigError")

    def slack(self):
        """L of all rounds; sums of more than a few are nearer to a Gaussian than the first ones."""
        honest = self.fields["honest"]
        sums = [log_error(self.s * math.sqrt(k / (k + 1))) for k in range(1, min(honest, 40))]
        each = sum(sums) + max(honest - 1 - len(sums), 0) * (sums[-1] if sums else 0.0)
        return self.fields["rounds"] * self.fields["dimension"] * (each + honest * log_error(self.s) + log_error(R))

    def epsilon(self):
        """By halving; the Gaussian mechanism of variance H s^2 - R^2. With fails above 0 there is none."""
        fields, slack = self.fields, self.slack()
        change = fields["bound"] / 2 ** fields["grid_bits"]
        mu = change * math.sqrt(fields["rounds"] / (fields["honest"] * self.s**2 - R**2))
        draws = fields["honest"] * fields["dimension"] * fields["rounds"] * theta(fields["variance"])
        outright = (1 + math.exp(fields["epsilon"])) * draws + fields["rounds"] * 2 ** fields["fails"]
        left = (fields["delta"] - outright) * math.exp(-slack)
        if left <= 0:
            return math.inf
        low, high = 0.0, 700.0
        for _ in range(100):
            middle = (low + high) / 2
            delta = phi(mu / 2 - middle / mu) - math.exp(middle) * phi(-mu / 2 - middle / mu)
            low, high = (low, middle) if delta <= left else (middle, high)
        return high + 2 * slack

    def encoding(self):
        return packed(self.fields)

    def digest(self):
        return hashed(MECHANISM, self.encoding())

    @property
    def step(self):
        return self.fields["norm"] * 2 ** self.fields["grid_bits"] / self.fields["bound"]

    @property
    def per_word(self):
        return 64 // self.fields["field_bits"]

    @property
    def length(self):
        return math.ceil(Fraction(self.fields["dimension"], self.per_word))

    def noise(self, survivors):
        return math.sqrt(survivors) * self.s * self.step

    # Vectors

    def on_grid(self, values, context):
        """The vector on the fine grid, and whether it was clipped."""
        bound, norm, count = self.fields["bound"], self.fields["norm"], len(values)
        largest = max(map(abs, values))
        if largest == 0:
            return [0] * count, 0
        length = math.hypot(*(Fraction(one) / Fraction(largest) for one in values))
        wanted = Fraction(largest) * Fraction(bound) / Fraction(norm)
        allowed = math.sqrt(max(bound**2 - count / 12, 0)) / length
        scale = float(min(wanted, Fraction(allowed)))
        turned = rotated([float(Fraction(one) / Fraction(largest)) * scale for one in values], context)
        for _ in range(4):
            fine = [round(one) for one in turned]
            found = sum(one * one for one in fine)
            if found <= bound**2:
                break
            turned = [one * (bound**2 / found) * (1 - 1 / bound) for one in turned]
        else:
            fine = [0] * count
        return fine, int(wanted > allowed)

    def encode(self, arrays, shapes, context, key):
        if [shape_of(one) for one in arrays] != shapes:
            refuse("Y2.1", "VectorError")
        values = [one for array in arrays for one in leaves(array)]
        if not all(map(math.isfinite, values)):
            refuse("Y2.2", "VectorError")
        fine, clipped = self.on_grid(values, context)
        drawn = draws_of(self.fields["variance"], self.fields["grid_bits"], fine, key)
        words = [0] * self.length
        for place, one in enumerate(drawn):
            words[place // self.per_word] += one << (self.fields["field_bits"] * (place % self.per_word))
        return fine, clipped, bytes_of([word % 2**64 for word in words], 64)

    def decode(self, data, survivors, context):
        if len(data) != 8 * self.length:
            refuse("Y2.4", "VectorError")
        if survivors < 1:
            refuse("Y2.5", "VectorError")
        numbers, width = [], self.fields["field_bits"]
        for word in words_of(data, 64):
            for _ in range(self.per_word):
                one = (word + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)
                numbers.append(one)
                word = (word - one) >> width
        steps = [one * self.step / survivors for one in numbers[: self.fields["dimension"]]]
        return unrotated(steps, context)
