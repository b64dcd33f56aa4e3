"""Errors of the service, besides those of ``ccesa.errors``. Each says whose fault it is."""

from ccesa.errors import CcesaError, ConfigError, OrderError


class Unavailable(CcesaError):
    """Raised if the store cannot be reached: the fault of the database or the network. Try again later."""


class NewerDatabase(ConfigError):
    """Raised for a database that a newer ccesa has taken over: the fault of the operator of the older one.

    Start the newer ccesa. This one may misread what the database says.
    """


class EngineFailed(CcesaError):
    """Raised if a hub stops because of an unexpected error: the fault of ccesa itself.

    Start the hub again and report the error. Nothing that was acknowledged is lost.
    """


class CoordinatorFailed(CcesaError):
    """Raised if a coordinator raises: the fault of its own code. The hub waits and tries again."""


class DamagedAudit(ConfigError):
    """Raised for an audit log that was changed. ``place`` is that of the first wrong entry; the first of all is 0."""

    def __init__(self, place: int, what: str) -> None:
        self.place = place
        super().__init__(f"entry {place} of the audit log {what}")


class Forgotten(OrderError):
    """Raised for replies that were deleted with their round: the hub is far behind, and has to start again."""
