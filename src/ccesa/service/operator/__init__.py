"""The operator's side of a hub: a page that shows what is going on, metrics, health, and a few actions.

It has a port of its own, on the loopback by default. Nothing here can see a vector, a share or a key.
"""

from ccesa.service.operator.app import app

__all__ = ["app"]
