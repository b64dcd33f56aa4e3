"""Values in a node's state, which Flower keeps from message to message for as long as a run lasts."""

from typing import Generic, TypeVar

import msgspec
from flwr.app import ConfigRecord, Context

from ccesa.flower.both import log

T = TypeVar("T")
_FIELD = "kept"


class Kept(Generic[T]):
    """One value of a node's state. A damaged one is dropped, so that the node is not kept out of rounds."""

    def __init__(self, context: Context, name: str, its_type: type[T]) -> None:
        self._state, self._name, self._type = context.state, name, its_type

    def load(self) -> T | None:
        """Return what was stored; None where there is nothing."""
        if self._name not in self._state:
            return None
        try:
            return msgspec.msgpack.decode(self._state[self._name][_FIELD], type=self._type)
        except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
            log.warn("the state of this node is damaged and dropped")
            self.store(None)
            return None

    def store(self, value: T | None) -> None:
        """Keep this value in place of the last one; None leaves nothing."""
        self._state.pop(self._name, None)
        if value:
            self._state[self._name] = ConfigRecord({_FIELD: msgspec.msgpack.encode(value)})
