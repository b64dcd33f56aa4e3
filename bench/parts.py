"""All parts of the bench, one row each: a name for ``--only``, a measurement, and a section of the page."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bench import imports, typescript
from bench.crypto import cuda, kernels, noise
from bench.flower import secagg as flower
from bench.flower import versus
from bench.progress import say
from bench.protocol import (
    active,
    ahead,
    assisted,
    client,
    executor,
    fields,
    hybrid,
    large,
    liars,
    privacy,
    scale,
    server,
    table,
    threads,
)
from bench.service import load as service


class Part(NamedTuple):
    """A part measures something, and has a section of the page."""

    title: str
    says: str
    measure: Callable[[], Any]
    text: Callable[[Any], str]


def _versus() -> dict[str, dict[str, float]]:
    return versus.compare(say) if flower.VERSION else {}


#: By name, in the order of the page.
PARTS = {
    "table": Part("The paper's running-time table", "the paper's table", table.compare, table.text),
    "million": Part("A million parameters", "one client, a million parameters", client.compare, client.text),
    "kernels": Part("Kernels", "the mask step by every kernel", kernels.compare, kernels.text),
    "server": Part(
        "A server with large vectors",
        "the server of 1,000 clients with a million words, beside its floor",
        server.compare,
        server.text,
    ),
    "threads": Part("Threads", "masks with one thread and with two", threads.compare, threads.text),
    "executor": Part(
        "Many processes and machines",
        "masks that come off through one worker and through two",
        executor.compare,
        executor.text,
    ),
    "fields": Part(
        "Fields in words", "fields in words, 1,000 clients, a million parameters", fields.compare, fields.text
    ),
    "ahead": Part("Masks ahead", "masks ahead, a million words", ahead.compare, ahead.text),
    "noise": Part("Exact noise", "a million draws of exact noise", noise.compare, noise.text),
    "flower": Part("Beside Flower's SecAgg+", "Flower and the package, in turn", _versus, versus.text),
    "active": Part(
        "The guard `active`", "both guards, 1,000 clients at the planned degree", active.compare, active.text
    ),
    "assisted": Part(
        "The guard `assisted`", "members, helpers and hub of rounds with helpers", assisted.compare, assisted.text
    ),
    "hybrid": Part("The hybrid agreement", "one client under both agreements", hybrid.compare, hybrid.text),
    "privacy": Part("Noisy sums", "noisy sums beside a trusted curator's", privacy.compare, privacy.text),
    "cuda": Part("On a GPU", "a GPU, as it was measured last", cuda.kept, cuda.text),
    "liars": Part("Wrong shares", "wrong shares, found in two ways", liars.compare, liars.text),
    "typescript": Part(
        "In browsers and Node", "clients in Node and Chromium beside Python's", typescript.compare, typescript.text
    ),
    "imports": Part("Importing", "import ccesa, beside its libraries", imports.compare, imports.text),
    "large": Part("Memory and scale", "whole rounds of many clients", large.compare, large.text),
    "scale": Part("Servers of many clients", "servers of many clients", scale.compare, scale.text),
    "service": Part("The service", "a hub under load", service.compare, service.text),
}
