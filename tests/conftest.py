"""For all tests: rounds take as long as the machine pleases, and new files have the usual permissions."""

import os

from hypothesis import settings

settings.register_profile("ccesa", deadline=None)
settings.load_profile("ccesa")

os.umask(0o022)  # lists that others can write to are refused
