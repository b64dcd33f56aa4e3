"""Series that stand still before each exchange, for the harness that feeds envelopes to a client."""

from functools import cache

from ccesa.agreement.config import RoundConfig
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests
from ccesa.simulate import enrolment
from fuzz import stage

#: Three rounds, so that there are exchanges with as many rounds in flight as there can be.
ROUNDS, EXCHANGES = 3, 8
PLACES = [(guard, exchange) for guard in stage.WITH_GRAPHS for exchange in range(EXCHANGES)]


def chosen(data: bytes) -> tuple[str, int]:
    """The guard, and the exchange that comes next."""
    return PLACES[data[0] % len(PLACES)]


def new_client(guard: str, who: int) -> SeriesClient:
    return SeriesClient(stage.configuration(guard, True), lambda config: stage.new_client(config, who))


def played(guard: str, exchanges: int) -> tuple[Requests, dict[int, SeriesClient]]:
    """Play so many exchanges; return the envelopes of the next one, and the clients."""

    def server(config: RoundConfig) -> Server:
        return enrolment.new_server(config, stage.FEDERATION)

    series = Series(stage.configuration(guard, True), server=server, rounds=ROUNDS)
    clients = {who: new_client(guard, who) for who in range(stage.CLIENTS)}
    for _ in range(exchanges):
        for who, request in series.open().items():
            series.receive(who, clients[who].receive(request))
        series.close()
    return series.open(), clients


@cache
def _kept(guard: str, exchange: int) -> bytes:
    return played(guard, exchange)[1][0].suspend()


def stopped(guard: str, exchange: int) -> SeriesClient:
    """A new client that stands before this exchange."""
    client = new_client(guard, 0)
    if exchange:
        client.resume(_kept(guard, exchange))
    return client
