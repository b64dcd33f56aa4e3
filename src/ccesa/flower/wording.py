"""What operators read: node ids in place of the protocol's client numbers, equal reasons in one line, and
foreign text cut and escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping

from ccesa.errors import CcesaError, Disconnected, FaultyClient

#: Ids and reasons that a line or a step shows at most.
_IDS, _REASONS = 16, 5
#: Characters of an error of the protocol.
_MOST = 1000
#: ``client 3``, ``clients 3, 5`` and ``client(s): 3, 5``.
_NUMBERED = re.compile(r"\bclient(s|\(s\):)? ([0-9]{1,10}(?:, [0-9]{1,10})*)\b")


def shown(text: str, most: int = 80) -> str:
    """Text of others for a log: one line of printable characters, and not longer than this."""
    cut = text[:most]
    escaped = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
    return escaped + "…" * (len(text) > most)


def named(nodes: Iterable[int]) -> str:
    """``node 17``, or how many nodes and their ids."""
    every = sorted(nodes)
    if len(every) == 1:
        return f"node {every[0]}"
    rest = f", and {len(every) - _IDS} more" if len(every) > _IDS else ""
    return f"{len(every)} nodes ({', '.join(map(str, every[:_IDS]))}{rest})"


def translated(text: str, nodes: Mapping[int, int]) -> str:
    """Text of the protocol with the ids of these nodes in place of client numbers.

    It is cut and escaped, as the protocol quotes what clients send.
    """

    def replace(found: re.Match[str]) -> str:
        clients = [int(number) for number in found[2].split(", ")]
        if not all(client in nodes for client in clients):
            return found[0]
        return f"node{found[1] or ''} {', '.join(str(nodes[client]) for client in clients)}"

    return _NUMBERED.sub(replace, shown(text, _MOST)).replace("client(s)", "node(s)")


def in_nodes(error: CcesaError, nodes: Mapping[int, int]) -> str:
    """What an error of the protocol says, in terms of nodes. Who sent what is refused is said beside it."""
    text = translated(str(error), nodes)
    if isinstance(error, FaultyClient):
        return text.removeprefix(f"node {nodes.get(error.client)}: ")
    if isinstance(error, Disconnected):
        return f"{text}; apart: {named(nodes[client] for client in error.component if client in nodes)}"
    return text


class Tally:
    """Reasons, and the nodes that each of them is true of."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[int]] = {}

    def add(self, reason: str, node: int) -> None:
        self._nodes.setdefault(reason, []).append(node)

    def lines(self) -> Iterator[str]:
        """A line per reason, the most frequent first; what is left over shares the last one."""
        ranked = sorted(self._nodes.items(), key=lambda item: -len(item[1]))
        for reason, nodes in ranked[:_REASONS]:
            yield f"{named(nodes)}: {reason}"
        rest = [node for _, nodes in ranked[_REASONS:] for node in nodes]
        if rest:
            yield f"{named(rest)}: other reasons"
