"""The HTTP side of a hub for its members: they fetch requests, tasks and results, and hand in replies, within limits.

``app`` makes the application, ``Front`` serves it within ``Limits``, ``serve`` runs fronts until a signal.
"""

from ccesa.service.http.app import app
from ccesa.service.http.serving import Front, Limits, serve

__all__ = ["Front", "Limits", "app", "serve"]
