"""Clients and servers, under every guard, refuse the same things before they make a key or ask anybody."""

from collections.abc import Container
from concurrent.futures import Executor

from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.kernels import kernel
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError
from ccesa.guards import guard_named
from ccesa.parts import check_type, whole_number
from ccesa.privacy.ledger import Account
from ccesa.values.fields import WORD_BITS


def check_round(config: RoundConfig, party: str, *, chartered: bool) -> None:
    """Refuse a round of another guard, or with an agreement or a kernel that is not installed."""
    check_type("config", config, RoundConfig, "; plan.config() makes one")
    if guard_named(config.guard).chartered is not chartered:
        needs = f"has no charter: make a {party}" if chartered else f"needs a charter: make an Active{party}"
        raise ConfigError(f"the round has guard = {config.guard}, which {needs}")
    AGREEMENTS[config.agreement].check_installed()
    kernel()  # when masks are made a task is spent, and when they come off every client has done its work


def checked_threads(threads: object) -> int:
    """Return the most threads that work at a time; 0 stands for as many as help."""
    found = whole_number("threads", threads)
    if found < 0:
        raise ConfigError(f"threads must be 0 or greater (0 takes as many as help), not {found}")
    return found


def check_executor(executor: object) -> None:
    """Refuse what has no workers, before a client has sent anything."""
    if executor is not None:
        check_type("executor", executor, Executor, "; Client.get_executor() of Dask makes one")


def check_unused(config: RoundConfig, used_rounds: Container[bytes] | None) -> None:
    """Refuse a round that was used before, as far as there is a memory of them."""
    if used_rounds is not None and config.round_id in used_rounds:
        raise ConfigError("this series has had a round of this number; every round needs a fresh one")


def check_account(charter: Charter, account: Account | None) -> None:
    """Refuse vectors under a charter with noise that nobody charges, or that are charged as others."""
    if account is None and charter.mechanism is not None:
        raise ConfigError(
            "the charter has noise, and this client no ledger: give it an account, "
            "Ledger(path).account(charter.privacy, charter.digest)"
        )
    if account is not None and (account.mechanism, account.charter) != (charter.mechanism, charter.digest):
        raise ConfigError(
            "an account for other noise, or for another charter, than the one that this client holds"
        )


def check_noise(config: RoundConfig, account: Account | None) -> None:
    """Refuse a round without a charter whose sums may have less noise than its vectors are charged for."""
    if account is None:
        return
    noise = account.mechanism
    if (config.length, config.bits) != (noise.length, WORD_BITS):
        raise ConfigError(
            f"a round of {config.length} words of {config.bits} bits, and the noise of this client's account "
            f"is made for {noise.length} of {WORD_BITS}"
        )
    if noise.honest > config.min_survivors:
        raise ConfigError(
            f"the noise of this client's account counts on {noise.honest} honest clients in every sum, and "
            f"this round opens sums of {config.min_survivors}"
        )
