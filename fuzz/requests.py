"""Requests of a lying server to a client in each state. The first byte chooses the place."""

from ccesa.errors import FaultyServer, MalformedMessage
from fuzz import stage

WHO = 0


def one(data: bytes) -> None:
    if not data:
        return
    stand = stage.stand(stage.chosen(data))
    try:
        # The step functions change no state, so one client stands for all inputs; ``receive`` would abort it.
        _, answer = stand.clients[WHO]._answer(memoryview(data)[1:])
    except (FaultyServer, MalformedMessage):
        return
    if not isinstance(answer, stand.server.step.replies) or answer.client != WHO:
        raise AssertionError("an answer that is not the one to this step")
