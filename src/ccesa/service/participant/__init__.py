"""The site of a federation: ``Participant``, and the core that it carries over HTTP."""

from ccesa.service.participant.assistant import Assistant
from ccesa.service.participant.calls import Event
from ccesa.service.participant.driver import Participant

__all__ = ["Assistant", "Event", "Participant"]
