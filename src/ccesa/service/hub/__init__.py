"""``Hub``: the process that runs a federation, for sites that reach it over HTTP."""

from ccesa.service.hub.hub import Hub

__all__ = ["Hub"]
