"""A site's side of the service: ``Participant``, and the core that it carries over HTTP."""
