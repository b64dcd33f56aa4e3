"""For all tests of the service: databases of both kinds."""

from postgres import database_url, postgres_server, postgres_url

__all__ = ["database_url", "postgres_server", "postgres_url"]
