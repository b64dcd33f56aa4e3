"""How a defence is taken away: the protocol's own function, with one check behind one name exchanged.

Nothing is copied, so a twin cannot drift from the original, and nothing is patched, so the original stays as
it is. What is exchanged is exactly what the twin's line says.
"""

import dis
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, ClassVar, TypeVar, cast

from ccesa.errors import UsageError
from ccesa.protocol.steps import Step

Result = TypeVar("Result")
#: By the name of a step, what becomes of its row.
Weaker = Mapping[str, Callable[[Step], Step]]


def relaxed(function: Callable[..., Result], **instead: Any) -> Callable[..., Result]:
    """Return the same code, with other things behind these global names."""
    plain = cast(FunctionType, function)
    unused = instead.keys() - set(_names(plain.__code__))
    if unused:
        raise UsageError(f"{plain.__name__} does not use {', '.join(sorted(unused))}: nothing is taken away")
    found = {**plain.__globals__, **instead}
    twin = FunctionType(plain.__code__, found, plain.__name__, plain.__defaults__, plain.__closure__)
    twin.__kwdefaults__ = plain.__kwdefaults__
    return cast("Callable[..., Result]", twin)


def skip(*_: object) -> None:
    """Do nothing, in place of a check that only ever raises."""


def without(**instead: Any) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return what makes any function that uses these names do so with other things behind them."""
    return lambda function: relaxed(function, **instead)


def in_step(**changes: Callable[[Any], Any]) -> Callable[[Step], Step]:
    """What changes functions of a step: ``answer`` of a client, ``take`` and ``close`` of a server."""
    return lambda step: step._replace(**{name: change(getattr(step, name)) for name, change in changes.items()})


def weaken(**steps: Callable[[Step], Step]) -> Weaker:
    """What becomes of the rows of these steps."""
    return steps


class Weakened:
    """A client or a server that does less in some of its steps, whatever its guard."""

    weaker: ClassVar[Weaker] = {}
    _steps: tuple[Step, ...]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._steps = tuple(self.weaker[step.name](step) if step.name in self.weaker else step for step in self._steps)


def _names(code: CodeType) -> Iterator[str]:
    """Also those used inside of comprehensions, which are code of their own. Attributes are no such names."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
