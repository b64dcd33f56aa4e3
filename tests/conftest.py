"""For all tests: rounds take as long as the machine pleases, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("ccesa", deadline=None)
settings.load_profile("ccesa")
