"""A coordinator makes the questions of a federation, and is told what came out.

It is the operator's own code, at the hub. It needs no memory: after a restart it is made anew and told all
results again, in their order, before it is asked for the next task.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ccesa.errors import ConfigError
from ccesa.service.errors import CoordinatorFailed
from ccesa.service.tasks import NamedArrays
from ccesa.values.fields import stepped_aside


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What came out of one question.

    Attributes:
        question: Which one, from 0 on.
        value: The sum, as the federation's form has it: words, or the mean of arrays.
        survivors: Ids of the clients in it.
    """

    question: int
    value: Any
    survivors: tuple[int, ...]


class Coordinator(ABC):
    """Makes tasks, and is told results: the base of an operator's own class, made without arguments."""

    @abstractmethod
    def task(self, question: int) -> bytes | NamedArrays:
        """Return what the sites are asked: bytes, or named arrays where that is the federation's form.

        Args:
            question: From 0 on.
        """

    @abstractmethod
    def result(self, result: Result) -> Mapping[str, float] | None:
        """Take a result.

        Args:
            result: What came out.

        Returns:
            Numbers to be shown beside it, such as an accuracy; or nothing.
        """

    def lost(self, question: int) -> None:  # noqa: B027  # most coordinators have nothing to do
        """Note that a question has no sum, and is not asked again; by default nothing changes.

        No site works on its task again, so the next one has to differ.

        Args:
            question: From 0 on.
        """


class Questions(Coordinator):
    """Asks for one sum after the other; the task is the question's text and its number.

    Args:
        text: What is asked for, for people.
    """

    def __init__(self, text: str = "") -> None:
        self._text = text

    def task(self, question: int) -> bytes:
        """Return the text with the number of the question behind it.

        Args:
            question: From 0 on.
        """
        return f"{self._text}#{question}".encode()

    def result(self, result: Result) -> None:
        """Ignore the result.

        Args:
            result: What came out.
        """


class Averaging(Coordinator):
    """Federated averaging: the task is the model, and the mean of the sites' changes is added to it.

    Args:
        model: The first model, arrays by name.
    """

    def __init__(self, model: NamedArrays) -> None:
        if not model:
            raise ConfigError("a model has at least one array")
        self.model = {name: np.array(value) for name, value in model.items()}

    def task(self, question: int) -> NamedArrays:
        """Return the model as it is now.

        Args:
            question: From 0 on.
        """
        return self.model

    def result(self, result: Result) -> None:
        """Add the mean of the changes.

        Args:
            result: The mean, under the names of the model.
        """
        for name, change in result.value.arrays.items():
            self.model[name] = self.model[name] + change

    def lost(self, question: int) -> None:
        """Step aside a little: no site works on this very model again.

        Args:
            question: From 0 on.
        """
        floats = {name: value for name, value in self.model.items() if value.dtype.kind == "f"}
        self.model |= stepped_aside(floats, np.random.default_rng(question))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn whatever a coordinator raises into ``CoordinatorFailed``."""
    try:
        yield
    except Exception as error:
        raise CoordinatorFailed(
            f"the coordinator's {what} failed: {type(error).__name__}: {error}"
        ) from error
