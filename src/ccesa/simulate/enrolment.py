"""Identities and an admission list for rounds that are simulated; real ones come from files."""

from collections.abc import Sequence

from ccesa.identity import Admission, Identity, Member


def enrol(clients: int) -> list[Identity]:
    """A fresh identity for each client."""
    return [Identity.new() for _ in range(clients)]


def admit(identities: Sequence[Identity]) -> Admission:
    """The list of all of them, in this order."""
    return Admission(Member(f"client-{place}", one.public) for place, one in enumerate(identities))
