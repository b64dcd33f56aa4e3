"""A site's side of the service: ``Participant``, and the core that it carries over HTTP."""

from ccesa.service.participant.driver import Participant
from ccesa.service.participant.events import Event

__all__ = ["Event", "Participant"]
