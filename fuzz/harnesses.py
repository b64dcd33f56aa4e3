"""All harnesses by name: each a module with ``one(data)``, which raises if an input breaks its property."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
NAMES = (
    "messages",
    "configuration",
    "admission",
    "charter",
    "identity",
    "packed",
    "quantized",
    "requests",
    "replies",
    "envelopes",
    "suspended",
    "terms",
    "assisted_requests",
    "assisted_replies",
    "helper_keys",
)


def harness(name: str) -> Callable[[bytes], None]:
    one: Callable[[bytes], None] = import_module(f"fuzz.{name}").one
    return one


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
