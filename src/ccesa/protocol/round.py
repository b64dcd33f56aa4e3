"""This is the whole protocol in memory, and the map of the project.

A server and its clients take turns. Each turn is a step of the list in ``steps.py``. The transport carries requests to
the clients and replies back; the one below keeps everything in memory. A client whose reply never comes has dropped
out. Nothing else can go wrong between honest parties.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ccesa.errors import FaultyClient
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.messages import NO_TASK
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, Step

#: The most bytes of vectors that wait for helpers before these are asked.
HELD_BYTES = 64 << 20
#: Carries the requests of a step to the clients; yields replies as they arrive, until the step is over.
Transport = Callable[[Step, Requests], Iterable[tuple[int, bytes]]]


def run_round(
    server: Server, transport: Transport, refused: Callable[[FaultyClient], None] = lambda fault: None
) -> Aggregate:
    """Run one round; return the sum or raise RoundFailed. Faulty replies go to ``refused``; their senders drop out."""
    requests = server.open()  # step 0: everybody is asked for fresh public keys
    # Each pass is one step. Its requests go out, its replies come in one by one, then it closes:
    #   advertise  keys                    -> V1, the assignment graph, everyone's neighbours
    #   share      sealed shares           -> V2, the shares meant for each client
    #   accept     accusations             -> V2, less what they cost; not in every round
    #   mask       masked vectors (summed) -> V3, the neighbours of each client that dropped
    #   unmask     shares                  -> V4, the sum
    # With helpers: key (those of helpers), mask (V3: helpers confirm vectors beside it), unmask (sums of their masks).
    while requests:
        for client, reply in _with_helpers(server, transport, requests):
            try:
                server.receive(client, reply)
            except FaultyClient as fault:
                refused(fault)
        requests = server.close()
    return server.result()


def _with_helpers(server: Server, transport: Transport, requests: Requests) -> Iterable[tuple[int, bytes]]:
    """Yield the replies of a step, and those of helpers that are asked beside it."""
    for one in transport(server.step, requests):
        yield one
        if server.held * server.config.masked_bytes > HELD_BYTES:
            yield from transport(server.step, server.ask_helpers())
    if asked := server.ask_helpers():
        yield from transport(server.step, asked)


#: Carries the envelopes of an exchange to the clients; yields replies as they arrive, until it is over.
SeriesTransport = Callable[[Requests], Iterable[tuple[int, bytes]]]


def run_series(
    series: Series,
    transport: SeriesTransport,
    task: Callable[[int], bytes] = lambda number: NO_TASK,
    refused: Callable[[FaultyClient], None] = lambda fault: None,
) -> Iterator[Ended]:
    """Run a series. When the caller stops early, or something breaks, no client keeps keys.

    Args:
        series: One that has not been opened.
        transport: Carries envelopes to the clients, and yields replies until the exchange is over.
        task: Returns 32 bytes, a digest of the work of the round of this number, when vectors are asked for.
        refused: Gets every faulty reply.

    Yields:
        Each round when it is over, before ``task`` is called for the next one. A lost round does not end the series.

    Raises:
        ConfigError: A task has another size, a member was never enrolled, or a server cannot be made.
    """
    try:
        while not series.finished:
            # Each pass is one exchange: round k is set up while k - 1 is at work. The task of k comes late.
            working = series.masking
            requests = series.open(NO_TASK if working is None else task(working))
            while requests:
                for client, reply in transport(requests):
                    try:
                        series.receive(client, reply)
                    except FaultyClient as fault:
                        refused(fault)
                requests = series.ask_helpers()  # none without helpers
            yield from series.close()
    finally:
        for _ in transport(series.stop()):
            pass


def in_memory(
    clients: Mapping[int, Client | Helper], drops: Callable[[Step, int], bool] = lambda step, client: False
) -> Transport:
    """Return a transport without a network; ``drops`` says whether a client drops out of a step, before replying."""

    def carry(step: Step, requests: Requests) -> Iterable[tuple[int, bytes]]:
        for client, request in requests.items():
            if not drops(step, client):
                yield client, clients[client].receive(request)

    return carry
