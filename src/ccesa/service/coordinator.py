"""A coordinator makes the questions of a federation and gets the results.

It is the operator's own code, on the hub. It needs no memory: after a restart, a new one gets all results
again, in their order, before it is asked for the next task.
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
from ccesa.values.fields import step_aside


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The result of one question.

    Attributes:
        question: Its number; the first one is 0.
        value: The sum in the federation's form, such as words or the mean of arrays.
        survivors: Ids of the clients in it.
    """

    question: int
    value: Any
    survivors: tuple[int, ...]


class Coordinator(ABC):
    """Base of an operator's own class, which is made without arguments."""

    @abstractmethod
    def task(self, question: int) -> bytes | NamedArrays:
        """Return a question's task: bytes, or named arrays if the federation's form is arrays.

        Args:
            question: Its number; the first one is 0.
        """

    @abstractmethod
    def result(self, result: Result) -> Mapping[str, float] | None:
        """Take a result.

        Args:
            result: Of one question.

        Returns:
            Numbers to show beside it, such as an accuracy, or None.
        """

    def lost(self, question: int) -> None:  # noqa: B027  # most coordinators have nothing to do
        """Note that a question has no sum and is not asked again.

        No site works on its task again, so the next task has to differ. By default this does nothing.

        Args:
            question: Its number; the first one is 0.
        """


class Questions(Coordinator):
    """Asks for one sum after the other. A task is a text and the number of the question.

    Args:
        text: For people.
    """

    def __init__(self, text: str = "") -> None:
        self._text = text

    def task(self, question: int) -> bytes:
        return f"{self._text}#{question}".encode()

    def result(self, result: Result) -> None:
        """Ignore the result.

        Args:
            result: Of one question.
        """


class Averaging(Coordinator):
    """Federated averaging: the task is the model, and the mean of the sites' changes is added to it.

    If a question is lost, the model changes slightly, because no site works on the same task again.

    Args:
        model: The first model, arrays by name.
    """

    def __init__(self, model: NamedArrays) -> None:
        if not model:
            raise ConfigError("a model must have at least one array")
        self.model = {name: np.array(value) for name, value in model.items()}

    def task(self, question: int) -> NamedArrays:
        return self.model

    def result(self, result: Result) -> None:
        """Add the mean of the changes.

        Args:
            result: The mean, under the names of the model.
        """
        for name, change in result.value.arrays.items():
            self.model[name] = self.model[name] + change

    def lost(self, question: int) -> None:
        floats = {name: value for name, value in self.model.items() if value.dtype.kind == "f"}
        self.model |= step_aside(floats, np.random.default_rng(question))


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Raise any exception of a coordinator as ``CoordinatorFailed``."""
    try:
        yield
    except Exception as error:
        raise CoordinatorFailed(f"the coordinator's {what} failed: {type(error).__name__}: {error}") from error
