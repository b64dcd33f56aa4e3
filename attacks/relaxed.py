"""How a defence is taken away: the protocol's own function, with one check behind one name exchanged.

Nothing is copied, so a twin cannot drift from the original, and nothing is patched, so the original stays as
it is. What is exchanged is exactly what the twin's line says.
"""

import dis
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from ccesa.errors import UsageError

Result = TypeVar("Result")


def relaxed(function: Callable[..., Result], **instead: Any) -> Callable[..., Result]:
    """The same code, with other things behind these global names."""
    plain = cast(FunctionType, function)
    unused = instead.keys() - set(_names(plain.__code__))
    if unused:
        raise UsageError(f"{plain.__name__} does not use {', '.join(sorted(unused))}: nothing is taken away")
    found = {**plain.__globals__, **instead}
    twin = FunctionType(plain.__code__, found, plain.__name__, plain.__defaults__, plain.__closure__)
    return cast("Callable[..., Result]", twin)


def skip(*_: object) -> None:
    """In place of a check that only ever raises."""


def _names(code: CodeType) -> Iterator[str]:
    """Also those used inside of comprehensions, which are code of their own. Attributes are no such names."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
