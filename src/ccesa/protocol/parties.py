"""Clients and servers, under every guard, refuse the same things before they make a key or ask anybody."""

from collections.abc import Container
from concurrent.futures import Executor

from ccesa.agreement.agreement import Agreement, Trust
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.kernels import kernel
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError
from ccesa.parts import check_type, whole_number


def check_round(config: RoundConfig, agreement: Agreement, now: float | None = None) -> None:
    """Refuse a round that was not agreed on, or an expired charter, or a kernel that is not installed."""
    if not isinstance(agreement, Trust):
        check_type("charter", agreement, Charter, "; Charter.load(path) reads one")
    agreement.check_current(now)
    agreement.check(config)
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
