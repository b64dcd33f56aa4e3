"""What an attack is: it runs against the real classes, with one defence in place or taken away.

Taking a defence away is a subclass in this package, never a switch in the protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ccesa.words import Vector

#: Told, line by line, who lies about what, what each client saw, and what the attacker ends up with.
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attack ended. With its defence in place it has to fail."""

    succeeded: bool
    #: Where it was stopped, or what was gained.
    summary: str
    #: What the attacker ended up with, and what the victim had sent: equal if a vector was stolen.
    stolen: Vector | None = field(default=None, repr=False)
    victim: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One row of docs/security.md."""

    number: str
    name: str
    title: str
    #: Under which guard it must fail: "curious" (under "active", too), "active" or "assisted".
    guard: str
    #: The defence that is taken away by ``--defence off``.
    defence: str
    run: Callable[[bool, Tell], Outcome]
