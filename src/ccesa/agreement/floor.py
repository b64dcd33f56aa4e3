"""A ``Floor`` is what a client insists on by itself, whatever the server proposes."""

from collections.abc import Iterator

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, quoted
from ccesa.parts import check_integer


def threshold_ratio(threshold: int, degree: int) -> float:
    """Return how many holders have to agree per neighbour."""
    return threshold / max(degree, 1)


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _check_ratio(ratio: object) -> None:
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 2:
        raise ConfigError(f"floor threshold_ratio must lie in [0, 2], not {quoted(ratio)}")


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What a client insists on by itself, whatever the server proposes.

    What is left out stays as in the floor that every client has: no round of two, no vector without a mask.
    Where degrees vary, ``degree``, ``mask_degree`` and ``threshold`` are about a client of mean degree.

    Attributes:
        clients: The fewest clients of a round (3).
        degree: The fewest neighbours of a client (1).
        mask_degree: The fewest neighbours that a client shares a mask with (1).
        threshold: The fewest holders that open a secret, t_i (2).
        threshold_ratio: The least t_i / d_i of each neighbourhood, in [0, 2] (0): without it a higher degree
            would make the same threshold weaker.
        survivors: The fewest clients in a sum (2).

    Raises:
        ConfigError: A field is not a number, or the ratio is out of range.
    """

    clients: int | None = None
    degree: int | None = None
    mask_degree: int | None = None
    threshold: int | None = None
    threshold_ratio: float | None = None
    survivors: int | None = None

    def __post_init__(self) -> None:
        for name, least in self._given():
            if name == "threshold_ratio":
                _check_ratio(least)
            else:
                check_integer(f"floor {name}", least)

    def over(self, default: "Floor") -> "Floor":
        """Return another floor with the fields that this one gives in place of its own.

        Args:
            default: The floor for what this one leaves out.
        """
        return msgspec.structs.replace(default, **dict(self._given()))

    def lacking(self, **found: float) -> str | None:
        """Return the first value that is below this floor, in words; None if none is.

        Args:
            **found: What a round has, by the names of fields.
        """
        for name, least in self._given():
            if name in found and found[name] < least:
                return f"{name} = {_short(found[name])}, this client's floor is {_short(least)}"
        return None

    def check(self, config: RoundConfig) -> None:
        """Check that a round is not weaker than this floor.

        Args:
            config: The round that a server proposes.

        Raises:
            ConfigError: A field is below the floor; the text names it.
        """
        degree = config.graph.mean_degree(config.clients)
        t = config.threshold.of(int(degree))
        lacking = self.lacking(
            clients=config.clients,
            degree=degree,
            mask_degree=config.graph.mean_mask_degree(config.clients),
            threshold=t,
            threshold_ratio=threshold_ratio(t, int(degree)),
            survivors=config.min_survivors,
        )
        if lacking:
            raise ConfigError(f"the round offers {lacking}")

    def _given(self) -> Iterator[tuple[str, float]]:
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return (item for item in every if item[1] is not None)


#: Where nothing else is asked for: no round of two, no vector without a mask.
BARE_FLOOR = Floor(clients=3, degree=1, mask_degree=1, threshold=2, threshold_ratio=0.0, survivors=2)
