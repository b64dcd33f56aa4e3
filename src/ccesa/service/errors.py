"""Errors of the service, besides those of ``ccesa.errors``; each says who is at fault."""

from ccesa.errors import CcesaError, ConfigError, OrderError


class Unavailable(CcesaError):
    """Raised where the store cannot be reached; the database is at fault, or the way to it: try later."""


class NewerDatabase(ConfigError):
    """Raised for a database that a newer ccesa has taken over; whoever runs this older one is at fault.

    What is in it may mean something that this one does not know: start the newer one.
    """


class EngineFailed(CcesaError):
    """Raised where a hub ends because of an error that nobody expected; ccesa itself is at fault.

    What was acknowledged is safe: start the hub again, and report the error.
    """


class CoordinatorFailed(CcesaError):
    """Raised where a coordinator's own code raises, which is at fault; the hub waits, and asks it again."""


class DamagedAudit(ConfigError):
    """Raised for an audit log that is not as it was written.

    Args:
        place: Of the first entry that is wrong, from 0 on.
        what: What is wrong with it.

    Attributes:
        place: Of the first entry that is wrong, from 0 on.
    """

    def __init__(self, place: int, what: str) -> None:
        self.place = place
        super().__init__(f"entry {place} of the audit log {what}")


class Forgotten(OrderError):
    """Raised where answers are asked for that were deleted with their round.

    A hub that needs them is far behind: what it would make of an empty exchange is not what the others made
    of it. It has to start over, from the first round that is not over.
    """
