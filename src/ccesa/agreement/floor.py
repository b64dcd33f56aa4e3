"""A ``Floor`` is a client's own minimum, whatever the server proposes."""

from collections.abc import Iterator

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, quoted
from ccesa.parts import check_integer


def threshold_ratio(threshold: int, degree: int) -> float:
    """Return t_i / d_i: the holders that open a secret, per neighbour."""
    return threshold / max(degree, 1)


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _check_ratio(ratio: object) -> None:
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 2:
        raise ConfigError(f"floor threshold_ratio must lie in [0, 2], not {quoted(ratio)}")


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """A client's own minimum, whatever the server proposes.

    Fields that are left out stay as in the floor of every client: no round of two, no vector without a mask.
    If degrees vary, ``degree``, ``mask_degree`` and ``threshold`` are about a client of mean degree.

    Attributes:
        clients: The minimum of clients in a round (3).
        degree: The minimum of a client's neighbours (1).
        mask_degree: The minimum of neighbours that share a mask with a client (1).
        threshold: The minimum of holders that open a secret, t_i (2).
        threshold_ratio: The minimum of t_i / d_i in each neighbourhood, in [0, 2] (0). Without it a higher
            degree would weaken the same threshold.
        survivors: The minimum of clients in a sum (2).

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
        """Return this floor, with the fields of another where this one leaves them out.

        Args:
            default: The other floor.
        """
        return msgspec.structs.replace(default, **dict(self._given()))

    def lacking(self, **found: float) -> str | None:
        """Return the first value below this floor, in words; None if there is none.

        Args:
            **found: The values of a round, by the names of fields.
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


#: The floor of every client: no round of two, no vector without a mask.
BARE_FLOOR = Floor(clients=3, degree=1, mask_degree=1, threshold=2, threshold_ratio=0.0, survivors=2)
