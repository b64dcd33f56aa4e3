"""A form turns a site's contribution into a vector of words, and the sum into a result.

Under a charter both sides derive the form from their own copies. Without a charter the hub announces it, and is
trusted to follow the protocol.
"""

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from ccesa import words
from ccesa.agreement.agreement import Agreement, Trust
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import in_base64
from ccesa.errors import ConfigError, VectorError, quoted, shown
from ccesa.parts import Part
from ccesa.privacy import NoisyQuantizer
from ccesa.privacy.mechanism import Mechanism
from ccesa.service.tasks import pack_arrays, unpack_arrays
from ccesa.statistics import Report, Schema
from ccesa.values.fields import USUAL_BITS, WORD_BITS, is_masked
from ccesa.values.quantize import Mean, Quantizer
from ccesa.words import Vector

#: The maximum size of a task or result, and the room in them for anything beside their numbers.
_MOST, _ROOM = 1 << 30, 1 << 24
_SHOWN = 16  # numbers of a vector that people are shown


class _Abstract(msgspec.StructMeta, ABCMeta):
    """The metaclass of a struct with abstract methods."""


class Form(Part, frozen=True, kw_only=True, metaclass=_Abstract):
    """A form turns contributions into vectors, and sums into results."""

    @property
    def mechanism(self) -> Mechanism | None:
        """The noise in every vector; None without noise."""
        privacy = getattr(self, "privacy", None)
        return privacy if isinstance(privacy, Mechanism) else None

    @abstractmethod
    def length(self, payload: bytes) -> int:
        """Return the number of words in a vector.

        Args:
            payload: The payload of the task.

        Raises:
            MalformedMessage: The payload is not of this form.
        """

    @abstractmethod
    def max_task(self, length: int) -> int:
        """Return the maximum size of a task for vectors of this length, unless a site says otherwise.

        Args:
            length: Words of a vector.
        """

    @property
    def max_result(self) -> int:
        """The maximum size of a published result."""
        return _MOST

    def argument(self, payload: bytes) -> Any:
        """Return the argument for a site's function.

        Args:
            payload: The payload of the task.

        Raises:
            MalformedMessage: The payload is not of this form.
        """
        return payload

    @abstractmethod
    def vector(self, contribution: Any, payload: bytes, context: bytes) -> Vector:
        """Return a site's vector.

        Args:
            contribution: The value that a site's function returned.
            payload: The payload of the task.
            context: ``RoundConfig.context`` of the round.

        Raises:
            VectorError: The contribution is not of this form.
        """

    @abstractmethod
    def value(self, total: Vector, survivors: int, payload: bytes, context: bytes) -> Any:
        """Return the result of a sum.

        Args:
            total: The sum of the survivors' vectors.
            survivors: The number of survivors.
            payload: The payload of the task.
            context: ``RoundConfig.context`` of the round.

        Raises:
            VectorError: No vectors of this form have such a sum.
        """

    @abstractmethod
    def for_json(self, value: Any) -> Any:
        """Return a result for JSON.

        Args:
            value: The value that ``value`` returned.
        """

    def in_words(self, value: Any) -> str:
        """Return a result for people.

        Args:
            value: The value that ``value`` returned.
        """
        return str(value)


class Words(Form, frozen=True, kw_only=True, tag="words"):
    """A contribution is the vector itself, and so is the result.

    Attributes:
        words: The number of words, 1 or greater.
        bits: Bits of a word, 8, 16, 32 or 64; sums are modulo 2^bits.
    """

    words: int
    bits: Literal[8, 16, 32, 64] = 32

    def __post_init__(self) -> None:
        if self.words < 1:
            raise ConfigError(f"words of a vector must be at least 1, not {self.words}")

    def length(self, payload: bytes) -> int:
        return self.words

    def max_task(self, length: int) -> int:
        return min(_MOST, _ROOM + 16 * length)

    @property
    def max_result(self) -> int:
        return min(_MOST, _ROOM + 16 * self.words)

    def vector(self, contribution: Any, payload: bytes, context: bytes) -> Vector:
        if is_masked(contribution):
            raise VectorError("a masked array: its hidden values would be summed as well; call filled(...) first")
        return words.check(np.asarray(contribution), self.words, self.bits)

    def value(self, total: Vector, survivors: int, payload: bytes, context: bytes) -> Vector:
        return total

    def for_json(self, value: Any) -> Any:
        return {"words": in_base64(np.ascontiguousarray(value).tobytes()), "bits": self.bits}

    def in_words(self, value: Any) -> str:
        more = f" ... ({self.words} words)" if self.words > _SHOWN else ""
        return " ".join(str(one) for one in value[:_SHOWN].tolist()) + more


class Arrays(Form, frozen=True, kw_only=True, tag="arrays"):
    """A contribution is a model's arrays, with or without a weight; the result is their weighted mean.

    With noise every site has weight one, and its arrays are clipped to the norm of the mechanism.

    Attributes:
        clients: The maximum number of clients in a sum.
        clip: The bound on the absolute value of every element.
        max_weight: The largest weight that a site may have.
        field_bits: Bits of a field; a sum over all clients has to fit.
        privacy: The noise in every vector; left out if sums are released as they are.
    """

    clients: int
    clip: float = 2.0
    max_weight: float = 1.0
    field_bits: int = USUAL_BITS
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET
    bits: ClassVar[int] = WORD_BITS  # bits of a word

    def length(self, payload: bytes) -> int:
        return self._quantizer(payload).length

    def max_task(self, length: int) -> int:
        bits = self.field_bits if self.mechanism is None else self.mechanism.field_bits
        return min(_MOST, _ROOM + 8 * (WORD_BITS // bits) * length)

    def argument(self, payload: bytes) -> Any:
        return unpack_arrays(payload)

    def vector(self, contribution: Any, payload: bytes, context: bytes) -> Vector:
        arrays, weight = contribution if isinstance(contribution, tuple) else (contribution, 1.0)
        if not isinstance(arrays, Mapping):
            raise VectorError(f"a contribution is a dict of arrays, not {quoted(type(arrays).__name__)}")
        quantizer = self._quantizer(payload)
        if isinstance(quantizer, NoisyQuantizer):
            return quantizer.encode(arrays, context).vector
        return quantizer.encode(arrays, weight).vector

    def value(self, total: Vector, survivors: int, payload: bytes, context: bytes) -> Mean[Any]:
        quantizer = self._quantizer(payload)
        if isinstance(quantizer, NoisyQuantizer):
            return quantizer.decode(total, survivors, context)
        return quantizer.decode(total)

    def for_json(self, value: Any) -> Any:
        return {"arrays": in_base64(pack_arrays(value.arrays)), "weight": value.weight}

    def in_words(self, value: Any) -> str:
        lines = [f"{name}: {np.shape(array)}, norm {np.linalg.norm(array):.6g}" for name, array in value.arrays.items()]
        return "\n".join([*lines, f"weight: {value.weight:g}"])

    def _quantizer(self, payload: bytes) -> Quantizer[Any] | NoisyQuantizer[Any]:
        arrays = unpack_arrays(payload, copied=False)  # for their names, shapes and types
        if self.mechanism is not None:
            return NoisyQuantizer.for_model(arrays, self.mechanism)
        return Quantizer.for_model(
            arrays, clients=self.clients, clip=self.clip, field_bits=self.field_bits, max_weight=self.max_weight
        )


class Statistics(Form, frozen=True, kw_only=True, tag="statistics"):
    """A contribution has the records of a table, and the result is a report over all of them.

    Attributes:
        schema: The columns to count, and how.
        privacy: The noise in every vector; left out if sums are released as they are.
    """

    schema: Schema
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET
    bits: ClassVar[int] = WORD_BITS  # bits of a word

    def length(self, payload: bytes) -> int:
        return self.schema.length

    def max_task(self, length: int) -> int:
        return 1 << 20  # the columns are in the charter

    @property
    def max_result(self) -> int:
        return (1 << 20) + 1024 * self.schema.length

    def argument(self, payload: bytes) -> Schema:
        return self.schema

    def vector(self, contribution: Any, payload: bytes, context: bytes) -> Vector:
        return self.schema.encode(contribution, self.mechanism)

    def value(self, total: Vector, survivors: int, payload: bytes, context: bytes) -> Report:
        return self.schema.decode(total, survivors, self.mechanism)

    def for_json(self, value: Any) -> Any:
        return {"report": value.as_dict(), "text": self.in_words(value)}


AnyForm = Words | Arrays | Statistics


def form_of(agreement: Agreement, table: object) -> AnyForm:
    """Return the form of a federation: its agreement decides, and ``table`` has the rest.

    A charter without learning and without noise leaves only the number of words open. Trust leaves the whole form
    open. Raises ConfigError for a table that is not a form, or has more than the charter leaves open.
    """
    if isinstance(agreement, Trust):
        return read_form(table)
    if not isinstance(agreement, Charter):
        raise ConfigError(f"a form follows from an agreement, not from {quoted(type(agreement).__name__)}")
    if agreement.schema is not None:
        return Statistics(schema=agreement.schema, privacy=agreement.privacy)
    if agreement.learning is None and agreement.mechanism is None:
        form = read_form(table)
        if not isinstance(form, Words):
            raise ConfigError("this charter has no learning and no statistics: its vectors are plain words")
        return Words(words=form.words, bits=agreement.bits)
    arrays = Arrays(clients=len(agreement.members), privacy=agreement.privacy)
    if agreement.learning is None:
        return arrays
    agreed = {name: getattr(agreement.learning, name) for name in ("clip", "max_weight", "field_bits")}
    return msgspec.structs.replace(arrays, **agreed)


def read_form(table: object) -> AnyForm:
    """Return the form that a table describes; raise ConfigError for any other table."""
    if isinstance(table, dict):
        privacy = table.get("privacy")
        if isinstance(privacy, dict) and privacy.get("fails", 0) is None:
            table = {**table, "privacy": {**privacy, "fails": -math.inf}}  # JSON has no number for it
    try:
        return msgspec.convert(table, AnyForm)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"this is not a form of contributions: {shown(str(error), 200)}") from None
