"""What a node keeps between messages, in its own state: clients that sleep, and the rounds it has seen."""

from flwr.app import ConfigRecord, Context

from ccesa.errors import ConfigError
from ccesa.flower.records import KEY

_USED = "ccesa-used"
_REMEMBERED = 4096  # round ids
#: The round that runs, and one more: a message that comes late must not end the one that runs.
_ROUNDS = 2


class Sleeping:
    """The suspended clients of this node, by the configuration of their round; the newest come last."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def take(self, config: bytes) -> bytes:
        """Out of the state: whatever happens next, it is not there twice."""
        found = self._load().get(config)
        if found is None:
            raise ConfigError("this node has no part in that round; was it restarted?")
        self.wipe(config)
        return found

    def put(self, config: bytes, client: bytes) -> None:
        self._store({**self._load(), config: client})

    def wipe(self, config: bytes) -> None:
        """Of this round only."""
        self._store({one: client for one, client in self._load().items() if one != config})

    def _load(self) -> dict[bytes, bytes]:
        record = self._context.state.config_records.get(KEY)
        if record is None:
            return {}
        rows = [record.get("configs"), record.get("clients")]
        if not all(isinstance(row, list) and all(isinstance(one, bytes) for one in row) for row in rows):
            raise ConfigError("the state of this node is damaged")
        return dict(zip(*rows, strict=True))

    def _store(self, clients: dict[bytes, bytes]) -> None:
        newest = list(clients.items())[-_ROUNDS:]
        if newest:
            configs, states = zip(*newest, strict=True)
            self._context.state[KEY] = ConfigRecord({"configs": list(configs), "clients": list(states)})
        else:
            self._context.state.pop(KEY, None)


class UsedRounds(set[bytes]):
    """Round ids that this node has seen."""

    def __init__(self, context: Context) -> None:
        record = context.state.config_records.get(_USED)
        packed = record["ids"] if record else b""
        if not isinstance(packed, bytes):
            packed = b""
        super().__init__(packed[place : place + 32] for place in range(0, len(packed), 32))
        self._context, self._packed = context, packed

    def add(self, round_id: bytes) -> None:
        super().add(round_id)
        self._packed = (self._packed + round_id)[-32 * _REMEMBERED :]
        self._context.state[_USED] = ConfigRecord({"ids": self._packed})
