"""Envelopes to a client of a series, before each exchange. The first byte chooses the guard and the exchange.

An envelope is refused as a whole and changes nothing, or each of its messages is answered or ends a round.
"""

from ccesa.errors import FaultyServer, MalformedMessage
from ccesa.protocol import envelope
from ccesa.protocol.series_client import SeriesClient
from fuzz import series_stage

WHO = 0


def one(data: bytes) -> None:
    if not data:
        return
    client = series_stage.stopped(*series_stage.chosen(data))
    check_form(data[1:])
    before = client.rounds
    try:
        reply = client.receive(data[1:])
    except FaultyServer:
        if client.rounds != before:
            raise AssertionError("an envelope that is refused has changed the rounds in flight") from None
        return
    check_answer(client, data[1:], reply)


def check_form(data: bytes) -> None:
    """Require that an envelope has one form."""
    try:
        messages = envelope.unpack(data)
    except MalformedMessage:
        return
    if envelope.pack(messages) != data:
        raise AssertionError("an envelope with two forms")


def check_answer(client: SeriesClient, request: bytes, reply: bytes) -> None:
    """Require at most one answer for each message, and nothing kept when the series ends."""
    if len(envelope.unpack(reply)) > len(envelope.unpack(request)):
        raise AssertionError("more answers than requests")
    if not request and client.rounds:
        raise AssertionError("the series is over, and secrets are left")
