"""A client adds the vector that its caller's function makes to the sum, once per round.

Without noise, errors in it are raised to the caller, and nothing leaves. With a ledger, the silence of a client would
say something about its data. So if the function fails, zeros leave with the same noise, charged like all others.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ccesa import words
from ccesa.errors import ConfigError, own_failure
from ccesa.privacy.ledger import Account
from ccesa.protocol.client_states import ClientRound, VectorSource
from ccesa.words import Vector


@dataclass(frozen=True)
class Careful:
    """A function of this package: it hides failures by itself, and its errors depend on no data."""

    make: Callable[[], Vector]

    def __call__(self) -> Vector:
        return self.make()


def check_source(vector: VectorSource, length: int, bits: int, account: Account | None) -> VectorSource:
    """Return the vector, or the function that makes it; with an account it has to be a function."""
    if callable(vector):
        return vector
    if account is not None:
        why = "a vector used in two rounds would have the same noise twice"
        raise ConfigError(f"with an account, give a function that calls encode, not a vector: {why}")
    return words.check(vector, length, bits)


def make_vector(round: ClientRound[object]) -> Vector:
    """Return the vector of this round. It has not left, and nothing is charged yet."""
    account, source, config = round.spend.account, round.vector, round.config

    def make() -> Vector:
        return words.check(source() if callable(source) else source, config.length, config.bits)

    if account is None or isinstance(source, Careful):
        return make()
    try:
        vector = make()
        account.check_fresh(vector)
    except KeyboardInterrupt:  # the person at the client ends it
        raise
    except BaseException as error:  # also SystemExit, which would be silence for the server
        from ccesa.privacy.quantizer import around_zero  # loaded only by clients that draw noise

        round.failures.append(own_failure(error))
        return around_zero(account.mechanism, round.random)
    return vector
