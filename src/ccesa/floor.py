"""A ``Floor`` is what a client insists on by itself, whatever the server proposes."""

from collections.abc import Iterator

import msgspec

from ccesa.config import RoundConfig
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

    What is left out stays as ``BARE_FLOOR`` has it. ``threshold_ratio`` is the least t_i / d_i, of each
    neighbourhood: without it a higher degree would make the same threshold weaker. Where degrees vary,
    ``degree``, ``mask_degree`` and ``threshold`` are about a client of mean degree.
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
        """The default, with what this floor says instead."""
        return msgspec.structs.replace(default, **dict(self._given()))

    def lacking(self, **found: float) -> str | None:
        """The first of what was found that is below this floor, in words; None if nothing is."""
        for name, least in self._given():
            if name in found and found[name] < least:
                return f"{name} = {_short(found[name])}, this client's floor is {_short(least)}"
        return None

    def check(self, config: RoundConfig) -> None:
        """Refuse a configuration that is weaker than this floor, before any key exists."""
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


#: Where nothing else is asked for: no sum of two, no vector without a mask.
BARE_FLOOR = Floor(clients=3, degree=1, mask_degree=1, threshold=2, threshold_ratio=0.0, survivors=2)
